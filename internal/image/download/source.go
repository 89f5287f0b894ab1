package download

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"time"
)

// Source is a file as others offer it.
type Source struct {
	// URLs are where it is, in the order to try.
	URLs []string
	// SHA256 is the digest that it has to have, in hex of any case.
	SHA256 string
	// Signature is the URL of its detached OpenPGP signature; "": there is none.
	Signature string
	// Origin names the bytes in the state of a part; "": their digest does.
	Origin string
}

// origin names the bytes that are wanted: those of another digest are others.
func (s *Source) origin() string {
	if s.Origin != "" {
		return s.Origin
	}
	return "sha256 " + strings.ToLower(s.SHA256)
}

// Open goes on with a file that is on its way from the source, or begins it.
func (s *Source) Open(folder Folder, dir, name string, step int64) (*Part, error) {
	return folder.OpenPart(dir, name, s.origin(), step)
}

// ErrCorrupt is the error of a file whose content is not the expected one.
var ErrCorrupt = errors.New("the file is not taken")

// Round asks one mirror after the other, beginning with the one at first, until the
// whole file is there with the right digest and, where keys is not nil, the right
// signature. A mirror that has brought something before it failed is the one to go
// on with: next is where the next round begins. The part is not saved.
func (c *Client) Round(ctx context.Context, p *Part, s *Source, keys *Keyring, first int) (next int, err error) {
	if len(s.URLs) == 0 {
		return 0, Permanent("nobody has it: its metadata names no location")
	}
	if keys != nil && s.Signature == "" { // before a gigabyte is transferred
		return first, Permanent("%w: its metadata names no signature, and one by a key of the keyring is asked for",
			ErrCorrupt)
	}
	var errs []error
	permanent := true
	for i := range s.URLs {
		at := (first + i) % len(s.URLs)
		before := p.State.Offset
		err := c.attempt(ctx, p, s, s.URLs[at])
		if err == nil {
			return at, c.authenticate(ctx, p, s, keys)
		}
		if ctx.Err() != nil || errors.As(err, new(LocalError)) {
			return at, err
		}
		if len(s.URLs) > 1 {
			err = fmt.Errorf("%s: %w", hostOf(s.URLs[at]), err)
		}
		if p.State.Offset > before && !IsPermanent(err) && !errors.Is(err, ErrSlow) {
			return at, err
		}
		permanent = permanent && IsPermanent(err)
		errs = append(errs, err)
	}
	return first, joined(errs, permanent)
}

// joined returns one error about what all mirrors failed with.
func joined(errs []error, permanent bool) error {
	if len(errs) == 1 {
		return errs[0]
	}
	texts := make([]string, len(errs))
	for i, err := range errs {
		texts[i] = err.Error()
	}
	err := errors.New(strings.Join(texts, "; "))
	if permanent {
		return PermanentError{err}
	}
	return err
}

// attempt asks one mirror for the missing part, and checks the digest of the whole.
func (c *Client) attempt(ctx context.Context, p *Part, s *Source, from string) error {
	resumed := p.State.Offset > 0
	if !p.Whole() {
		err := c.Fill(ctx, p, from)
		if errors.Is(err, ErrTooLarge) || errors.Is(err, errEndless) {
			// The answer is another file: the next mirror begins at the first byte.
			if err := p.Restart(); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
	if s.SHA256 != "" && !strings.EqualFold(p.Sum(), s.SHA256) {
		// Who knows the digest that it has knows much of what was read, and need not be
		// one who may read it.
		if err := p.Restart(); err != nil {
			return err
		}
		err := fmt.Errorf("%w: its SHA-256 is not %s", ErrCorrupt, strings.ToLower(s.SHA256))
		if resumed {
			return fmt.Errorf("%w; it was put together from several answers", err)
		}
		return PermanentError{err}
	}
	return nil
}

// maxSignature bounds a detached signature.
const maxSignature = 64 << 10

// authenticate checks the signature of a complete file. The file is kept where that
// fails: its digest is right, so another download would be the same.
func (c *Client) authenticate(ctx context.Context, p *Part, s *Source, keys *Keyring) error {
	if keys == nil {
		return nil
	}
	signature, err := c.Small(ctx, s.Signature, maxSignature)
	if err != nil {
		return fmt.Errorf("its signature: %w", err)
	}
	content := &Counted{Context: ctx, Reader: io.NewSectionReader(p, 0, p.State.Offset)}
	if err := keys.Verify(content, signature); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return Permanent("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// hostOf names a mirror.
func hostOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Host != "" {
		return u.Host
	}
	return "a mirror"
}

// tries is how often Get asks all mirrors without a byte that comes.
const tries = 4

// Get brings a file below a folder under its name, verified, going on with what an
// earlier Get has left. It tries each mirror several times; the error is that of
// the last round. step is as for OpenPart.
func (c *Client) Get(ctx context.Context, folder Folder, dir, name string, s *Source, keys *Keyring, step int64) error {
	p, err := s.Open(folder, dir, name, step)
	if err != nil {
		return err
	}
	defer p.Close()
	at := 0
	for failures := 1; ; failures++ {
		before := p.State.Offset
		at, err = c.Round(ctx, p, s, keys, at)
		if err == nil {
			break
		}
		if p.State.Offset > before && !errors.Is(err, ErrSlow) {
			failures = 1
		}
		if errors.As(err, new(LocalError)) {
			p.Discard() // others need the room more
			return err
		}
		if saveErr := p.Save(); saveErr != nil {
			return errors.Join(err, saveErr)
		}
		if ctx.Err() != nil || IsPermanent(err) || failures >= tries {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(time.Second<<failures + rand.N(time.Second)):
		}
	}
	if err := p.Sync(); err != nil {
		return err
	}
	return p.Commit(name)
}
