package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"

	"glowplug/internal/domain/coreos"
	"glowplug/internal/image/download"
	"glowplug/internal/version"
)

const (
	// mirrorStep is how many bytes come between two points that a download goes on
	// from after a crash; an interrupt loses none.
	mirrorStep = 64 << 20
	// maxSignatureFile bounds a detached signature.
	maxSignatureFile = 64 << 10
)

// mirror brings the files of a stream into a folder.
type mirror struct {
	dir, stream string
	doc         *coreos.Document
	plan        []mirrored
	keys        *download.Keyring
	notes       io.Writer

	// fetched counts the files that were not there.
	fetched int
	bar     *progress
}

// run brings one file after the other. What fails does not keep the others from
// coming; the error names each.
func (m *mirror) run(ctx context.Context) error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	folder := download.Folder{Root: root, Shared: true} // for whichever web server
	client := &download.Client{
		HTTP: download.NewHTTPClient(2), Agent: "glowplug/" + version.Version,
		Room: func(p *download.Part) error {
			m.bar.total, m.bar.now = p.State.Total, p.State.Offset
			return nil
		},
		Received: func(n float64) { m.bar.add(int64(n)) },
	}
	var failed []error
	for _, file := range m.plan {
		err := m.bring(ctx, client, folder, file)
		if ctx.Err() != nil {
			return withHint(errors.New("interrupted"), "run it again, and it goes on where it stopped")
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", path.Base(file.path), err))
		}
	}
	if len(failed) > 0 {
		err := errors.Join(failed...)
		if len(failed) > 1 {
			err = fmt.Errorf("%d of %d files are not there:\n%w", len(failed), len(m.plan), err)
		}
		return withHint(err, "run it again, and it goes on where it stopped")
	}
	return nil
}

// bring makes sure that a file and its signature are there and right.
func (m *mirror) bring(ctx context.Context, client *download.Client, folder download.Folder, file mirrored) error {
	dir, name := path.Split(file.path)
	source := &download.Source{URLs: file.URLs, SHA256: file.SHA256, Signature: file.Signature}
	m.bar = newProgress(m.notes, name, 0)
	there, err := m.there(ctx, client, folder, file)
	if err != nil {
		return err
	}
	if !there {
		err := client.Get(ctx, folder, path.Clean(dir), name, source, m.keys, mirrorStep)
		m.bar.done()
		if err != nil {
			return err
		}
		m.fetched++
	}
	if file.Signature == "" {
		return nil
	}
	if _, err := folder.Root.Stat(file.path + coreos.SignatureSuffix); err == nil && there {
		return nil
	}
	signature, err := client.Small(ctx, file.Signature, maxSignatureFile)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	return folder.Replace(file.path+coreos.SignatureSuffix, signature)
}

// there reports whether a file is in the folder as it should be. One that is not is
// brought anew; one whose signature is not right is an error.
func (m *mirror) there(ctx context.Context, client *download.Client, folder download.Folder, file mirrored) (bool,
	error) {
	content, err := folder.Root.Open(file.path)
	if err != nil {
		return false, nil // bringing it says what is in the way
	}
	defer content.Close()
	h := sha256.New()
	if _, err := io.Copy(h, &download.Counted{Context: ctx, Reader: content}); err != nil {
		return false, err
	}
	if hex.EncodeToString(h.Sum(nil)) != file.SHA256 {
		return false, nil
	}
	if m.keys == nil {
		return true, nil
	}
	verify := func(signature []byte) error {
		if _, err := content.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return m.keys.Verify(&download.Counted{Context: ctx, Reader: content}, signature)
	}
	if signature, err := folder.Root.ReadFile(file.path + coreos.SignatureSuffix); err == nil && verify(signature) == nil {
		return true, nil
	}
	// The one that is kept may have been made by a key that has gone, or be broken.
	if file.Signature == "" {
		return false, errors.New("its metadata names no signature, and one by a key of the keyring is asked for")
	}
	signature, err := client.Small(ctx, file.Signature, maxSignatureFile)
	if err != nil {
		return false, fmt.Errorf("its signature: %w", err)
	}
	if err := verify(signature); err != nil {
		return false, err
	}
	return true, folder.Replace(file.path+coreos.SignatureSuffix, signature)
}
