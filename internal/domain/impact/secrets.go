package impact

import (
	"bytes"
	"crypto/sha256"
	"fmt"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/compile"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

// Vault has the values of Secrets. No error of it quotes a value.
type Vault interface {
	// Value returns the value of a key of a Secret.
	Value(namespace, name, key string) (string, error)
	// CHAP returns the credentials of an image in a namespace, whose object may name a Secret.
	CHAP(namespace string, chap *v1.CHAP) (v1.CHAP, error)
}

// Secrets are the values of Secrets without the changes and with them.
type Secrets struct {
	Before, After Vault
	// Changed are the Secrets that the changes write or delete.
	Changed map[model.Ref]bool
}

// vaults returns the values on both sides; nil: placeholders stand for them.
func (s *Secrets) vaults() (before, after Vault) {
	if s == nil {
		return nil, nil
	}
	return s.Before, s.After
}

// templates returns the templates of a view that may be rendered with a changed Secret.
func (s *Secrets) templates(view model.View) (found []model.Ref) {
	if s == nil || len(s.Changed) == 0 {
		return nil
	}
	for _, config := range view.Templates() {
		if s.isNamedIn(config) {
			found = append(found, config.Ref)
		}
	}
	return found
}

func (s *Secrets) isNamedIn(config *model.Config) bool {
	if !bytes.Contains(config.Artifact, []byte("secret")) {
		return false
	}
	var parsed *compile.Template
	for ref := range s.Changed {
		if ref.Namespace != config.Namespace {
			continue
		}
		if parsed == nil {
			if parsed, _ = config.ParseTemplate(); parsed == nil {
				return false
			}
		}
		if parsed.MayNameSecret(ref.Name) {
			return true
		}
	}
	return false
}

// images returns the images of a view whose logins need a changed Secret.
func (s *Secrets) images(view model.View) (found []model.Ref) {
	if s == nil || len(s.Changed) == 0 {
		return nil
	}
	for _, image := range view.Images("") {
		if image.CHAP != nil && s.Changed[model.Ref{Namespace: image.Namespace, Name: image.CHAP.SecretName}] {
			found = append(found, image.Ref)
		}
	}
	return found
}

// login identifies the credentials in the boot script of an image; "": it has none. The error says why they
// are not known.
func (s *side) login(image *model.Image) (string, error) {
	isTarget := !image.PXE && (image.External != nil || !image.HTTP)
	if image.CHAP == nil || !isTarget || s.vault == nil {
		return "", nil
	}
	chap, err := s.vault.CHAP(image.Namespace, image.CHAP)
	if err != nil {
		return "", fmt.Errorf("image %s asks for a login: %w", image.Ref, err)
	}
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", chap))), nil
}

// differInSecrets reports whether two answers differ in nothing but values of Secrets.
func differInSecrets(before, after *served) bool {
	return before.config == after.config && before.hash == after.hash && before.version == after.version &&
		before.values != "" && after.values != "" && before.values != after.values
}

// rendered is a template rendered for a host.
type rendered struct {
	// masked has placeholders for the values of Secrets; nil: the rendering fails.
	masked *compile.Artifact
	// named are these Secrets, and revealed has their values; reason says why it is nil.
	named    []template.SecretKey
	revealed *compile.Artifact
	reason   string
}

// reveal adds the rendering with the values of Secrets, as the machine receives it.
func (r *renderings) reveal(to *rendered, config *model.Config, facts *template.Facts) {
	for _, s := range to.named {
		if _, err := r.vault.Value(config.Namespace, s.Name, s.Key); err != nil {
			to.reason = err.Error()
			return
		}
	}
	with := *facts
	with.Secret = func(name, key string) (string, error) { return r.vault.Value(config.Namespace, name, key) }
	if to.revealed = r.execute(config, &with); to.revealed == nil {
		to.reason = "with the values of its Secrets it does not compile, although it does with placeholders"
	}
}
