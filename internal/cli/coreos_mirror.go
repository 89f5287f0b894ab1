package cli

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"glowplug/internal/domain/coreos"
	"glowplug/internal/domain/wording"
	"glowplug/internal/image/download"
)

func newCoreOSMirrorCommand() *cobra.Command {
	var (
		client                      clientOptions
		from, stream, release, base string
		keyring                     string
		architectures, artifacts    []string
		formats                     []string
	)
	cmd := &cobra.Command{
		Use:   "mirror DIR",
		Short: "Download images of a CoreOS stream into a folder, for a site without Internet",
		Long: `Download the images of a stream's current release into a folder, verify the SHA-256
of each and, with --keyring, its signature, and store them as
STREAM/RELEASE/ARCHITECTURE/ARTIFACT/FILE with their signatures. Existing files are
verified, not downloaded again. An interrupted download goes on where it stopped when
the command is run again. The stream is one of the server's or, with --from, that of a
file or URL.

--rewrite-base also writes STREAM.json into the folder: the same metadata with
the locations of the mirrored files. A glowplug server serves such a folder with
serve --streams-dir under /streams/artifacts/, any other web server as it is.`,
		Example: `  glowplug coreos mirror --from https://builds.coreos.fedoraproject.org/streams/stable.json \
    --arch x86_64 --artifact metal,vmware --rewrite-base http://192.168.10.2:8082/streams/artifacts mirror/
  glowplug coreos import mirror/stable.json`,
		Args: arguments("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if u, err := url.Parse(base); base != "" && (err != nil || !isURL(base) || u.Host == "" || u.User != nil ||
				u.RawQuery != "" || u.Fragment != "") {
				return usagef("--rewrite-base: %q is not the URL of a folder, such as http://192.168.10.2:8082/streams/artifacts",
					base)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			var doc *coreos.Document
			var err error
			switch {
			case from != "" && release != "":
				return usagef("--release is for a stream of the server, and --from is given")
			case from != "":
				doc, err = readMetadata(ctx, cmd.InOrStdin(), stream, from)
			default:
				doc, stream, err = serverMetadata(ctx, &client, stream, release)
			}
			if err != nil {
				return err
			}
			stream = cmp.Or(stream, doc.Stream.Stream)
			m := &mirror{
				dir: args[0], stream: stream, base: strings.TrimSuffix(base, "/"), doc: doc, notes: cmd.ErrOrStderr(),
			}
			if m.plan, err = planMirror(doc, stream, architectures, artifacts, formats); err != nil {
				return err
			}
			if keyring != "" {
				if m.keys, err = download.ReadKeyring(keyring); err != nil {
					return fmt.Errorf("--keyring %s: %w", keyring, err)
				}
			}
			if err := m.run(ctx); err != nil {
				return err
			}
			return m.report(cmd.OutOrStdout())
		},
	}
	client.addFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "file or URL of the stream's metadata, instead of the server's")
	cmd.Flags().StringVar(&stream, "stream", "",
		"stream (default: the server's only one, or that of the metadata)")
	cmd.Flags().StringVar(&release, "release", "", "release of the stream on the server (default: the current one)")
	cmd.Flags().StringSliceVar(&architectures, "arch", nil, "only this architecture (repeatable; default all)")
	cmd.Flags().StringSliceVar(&artifacts, "artifact", nil,
		"only this artifact, such as metal or vmware (repeatable; default all)")
	cmd.Flags().StringSliceVar(&formats, "format", nil, "only this format, such as iso or pxe (repeatable; default all)")
	cmd.Flags().StringVar(&keyring, "keyring", "",
		"file of OpenPGP public keys: every image has to be signed by one of them")
	cmd.Flags().StringVar(&base, "rewrite-base", "",
		"URL at which the folder is served: write the stream's metadata with locations below it")
	return cmd
}

// mirrored is a file and its path below the folder of the mirror.
type mirrored struct {
	coreos.Listed
	path string
}

// planMirror returns the files and their paths. Two files with one path are an error.
func planMirror(doc *coreos.Document, stream string, architectures, artifacts, formats []string) ([]mirrored, error) {
	listed, err := doc.List(architectures, artifacts)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for _, format := range formats {
		wanted[format] = false
	}
	var plan []mirrored
	taken := map[string]string{}
	for _, file := range listed {
		if _, ok := wanted[file.Format]; !ok && len(formats) > 0 {
			continue
		}
		wanted[file.Format] = true
		path, err := coreos.MirrorPath(stream, file.Release, file.Architecture, file.Artifact, file.URLs[0])
		if err != nil {
			return nil, fmt.Errorf("%s of %s for %s: %w", file.Format, file.Artifact, file.Architecture, err)
		}
		if sum, twice := taken[path]; twice && sum != file.SHA256 {
			return nil, fmt.Errorf("%s is the name of two files of %s for %s: mirror one --format at a time",
				filepath.Base(path), file.Artifact, file.Architecture)
		}
		taken[path] = file.SHA256
		plan = append(plan, mirrored{file, path})
	}
	for _, format := range formats {
		if !wanted[format] {
			return nil, fmt.Errorf("none of these artifacts has the format %s", format)
		}
	}
	if len(plan) == 0 {
		return nil, errors.New("the stream lists no such image")
	}
	return plan, nil
}

// rewrite writes the metadata with the locations of the mirrored files, if their base is known.
func (m *mirror) rewrite() error {
	if m.base == "" {
		return nil
	}
	type place struct{ arch, artifact, format, role string }
	paths := map[place]string{}
	for _, file := range m.plan {
		paths[place{file.Architecture, file.Artifact, file.Format, file.Role}] = file.path
	}
	text, err := m.doc.Rewrite(func(at coreos.Listed, member, url string) string {
		path, here := paths[place{at.Architecture, at.Artifact, at.Format, at.Role}]
		if !here {
			return url
		}
		if member == "signature" {
			path += coreos.SignatureSuffix
		}
		return m.base + "/" + path
	})
	if err != nil {
		return err
	}
	return m.folder.Replace(m.stream+".json", text)
}

func (m *mirror) report(w io.Writer) error {
	_, err := fmt.Fprintf(w, "%s of stream %s in %s: %d downloaded, %d there already, all verified\n",
		wording.Count(len(m.plan), "file", "files"), m.stream, m.dir, m.fetched, len(m.plan)-m.fetched)
	if err == nil && m.base != "" {
		_, err = fmt.Fprintf(w, "metadata: %s\n", filepath.Join(m.dir, m.stream+".json"))
	}
	return err
}

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
	base        string // URL at which the folder is served; "": the metadata is not written
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

// downloadsRest is the remedy of downloads that failed.
const downloadsRest = "run the command again: it downloads the rest, and goes on where a download stopped;" +
	" a file that is not there (404), a wrong SHA-256 or signature is an error of the stream's metadata or of the web" +
	" server, and stays"

// run downloads one file after the other, and then writes the metadata. After the failure of
// one file it goes on with the others; the error names each.
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
		return m.rewrite()
	case 1:
		return withHint(failed[0], downloadsRest)
	}
	err = fmt.Errorf("%d of %d files are missing:\n%w", len(failed), len(m.plan), errors.Join(failed...))
	return withHint(err, downloadsRest)
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
