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
)

const (
	// mirrorStep is the number of bytes between two points at which a download goes on
	// after a crash; an interrupt loses none.
	mirrorStep = 64 << 20
	// maxSignatureFile bounds a detached signature.
	maxSignatureFile = 64 << 10
)

// mirror downloads the files of a stream into a folder.
type mirror struct {
	dir, stream string
	doc         *coreos.Document
	plan        []mirrored
	keys        *download.Keyring
	notes       io.Writer

	client *download.Client
	folder download.Folder
	// fetched counts the downloaded files.
	fetched int
	bar     *progress
}

// run downloads one file after the other. After the failure of one it goes on with the
// others; the error names each.
func (m *mirror) run(ctx context.Context) error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		return err
	}
	defer root.Close()
	m.folder = download.Folder{Root: root, Shared: true} // for any web server
	m.client = newDownloadClient(download.NewHTTPClient(2))
	m.client.Room = func(p *download.Part) error {
		m.bar.total, m.bar.now = p.State.Total, p.State.Offset
		return nil
	}
	m.client.Received = func(n float64) { m.bar.add(int64(n)) }
	var failed []error
	for _, file := range m.plan {
		err := m.ensure(ctx, file)
		if ctx.Err() != nil {
			return withHint(errors.New("interrupted"), goesOn)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", path.Base(file.path), err))
		}
	}
	switch len(failed) {
	case 0:
		return nil
	case 1:
		return withHint(failed[0], goesOn)
	}
	return withHint(fmt.Errorf("%d of %d files are missing:\n%w", len(failed), len(m.plan), errors.Join(failed...)), goesOn)
}

// ensure makes sure that a file and its signature are in the folder and valid.
func (m *mirror) ensure(ctx context.Context, file mirrored) error {
	dir, name := path.Split(file.path)
	m.bar = newProgress(m.notes, name, 0)
	valid, err := m.isValid(ctx, file)
	if err != nil {
		return err
	}
	if !valid {
		source := &download.Source{URLs: file.URLs, SHA256: file.SHA256, Signature: file.Signature}
		err := m.client.Get(ctx, m.folder, path.Clean(dir), name, source, m.keys, mirrorStep)
		m.bar.done()
		if err != nil {
			return err
		}
		m.fetched++
	}
	_, err = m.folder.Root.Stat(file.path + coreos.SignatureSuffix)
	if file.Signature == "" || valid && err == nil {
		return nil
	}
	return m.fetchSignature(ctx, file, func([]byte) error { return nil })
}

// fetchSignature downloads the signature of a file, and stores it if it is valid.
func (m *mirror) fetchSignature(ctx context.Context, file mirrored, verify func(signature []byte) error) error {
	signature, err := m.client.Small(ctx, file.Signature, maxSignatureFile)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	if err := verify(signature); err != nil {
		return err
	}
	return m.folder.Replace(file.path+coreos.SignatureSuffix, signature)
}

// isValid reports whether a file is in the folder with the right content. One with
// another content is downloaded again; one whose signature is invalid is an error.
func (m *mirror) isValid(ctx context.Context, file mirrored) (bool, error) {
	content, err := m.folder.Root.Open(file.path)
	if err != nil {
		return false, nil // the download reports the reason
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
	stored, err := m.folder.Root.ReadFile(file.path + coreos.SignatureSuffix)
	if err == nil && verify(stored) == nil {
		return true, nil
	}
	// The stored signature may be damaged, or by a key that the keyring no longer has.
	if file.Signature == "" {
		return false, errors.New("its metadata names no signature, and --keyring requires one")
	}
	return true, m.fetchSignature(ctx, file, verify)
}
