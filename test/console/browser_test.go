package console

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/chromedp/chromedp"

	"glowplug/internal/credentials"
)

// theBrowser is the context of the one browser; each tab is a child of it. browserStart is how long it took to start.
var (
	theBrowser   context.Context
	browserStart time.Duration
)

// browserPatience bounds the start of the browser; browsers of a busy machine took 3 s.
const browserPatience = time.Minute

// nobody is the proxy of the browser's own requests, which ask its maker about updates, accounts and more, whatever
// the flags: they are refused. Tabs have a proxy of their own.
const nobody = "http://127.0.0.1:9"

// browserFlags keep the browser from requests of its own and from delaying the timers of tabs that are not in front.
var browserFlags = []string{
	"disable-quic", "disable-background-networking", "disable-component-update", "disable-sync",
	"disable-dev-shm-usage", "metrics-recording-only", "disable-default-apps", "disable-extensions",
	"disable-background-timer-throttling", "disable-renderer-backgrounding", "disable-backgrounding-occluded-windows",
}

// startBrowser starts the browser with an empty profile.
func startBrowser(profile string) (stop func(), err error) {
	began := time.Now()
	key, err := serverKey()
	if err != nil {
		return func() {}, err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless,
		chromedp.DisableGPU, chromedp.UserDataDir(profile), chromedp.WindowSize(windowWidth, windowHeight),
		chromedp.ProxyServer(nobody), chromedp.Flag("ignore-certificate-errors-spki-list", key),
		chromedp.Flag("disable-features", "AutofillServerCommunication"), // it asks Google about each form
	}
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium does not start as root with it
	}
	for _, name := range browserFlags {
		options = append(options, chromedp.Flag(name, true))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, _ := chromedp.NewContext(allocator)
	theBrowser = ctx
	stop = func() {
		_ = chromedp.Cancel(ctx)
		end()
	}
	// The browser lives as long as the context of its first action, so the bound is not that context's.
	late := time.AfterFunc(browserPatience, end)
	defer late.Stop()
	if err := chromedp.Do(ctx); err != nil {
		return stop, fmt.Errorf("starting %s within %s: %w", chromium, browserPatience, err)
	}
	browserStart = time.Since(began)
	return stop, nil
}

// serverKey is the hash of the public key of all servers of this package, by which the browser trusts them.
func serverKey() (string, error) {
	pki := credentials.Folder(certificates)
	pair, err := tls.LoadX509KeyPair(filepath.Join(pki, "server.crt"), filepath.Join(pki, "server.key"))
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pair.Leaf.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}
