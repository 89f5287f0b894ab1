package rendering

import (
	"context"
	"errors"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/template"
)

// valueOf returns the value of a Secret in the namespace of a config. Its error quotes the name and the key.
func (c *Cache) valueOf(config *model.Config, name, key string) (string, error) {
	if c.opts.Secret == nil {
		return "", errors.New("there are no Secrets here")
	}
	return c.opts.Secret(config.Namespace, name, key)
}

// MissingSecret returns the reason why one of the values of Secrets cannot be served in a rendering of a
// config; nil: all of them can.
func (c *Cache) MissingSecret(config *model.Config, named []template.SecretKey) error {
	for _, s := range named {
		if _, err := c.valueOf(config, s.Name, s.Key); err != nil {
			return err
		}
	}
	return nil
}

// reveal renders a template once more, with the values of Secrets, of which those of the masked rendering are
// there. The result is for the machine alone: it is not cached, and its hash is that of the masked rendering. The
// reason why there is none is not the message of the failure, which may quote a value. So may the name of a Secret
// that the masked rendering does not have.
func (c *Cache) reveal(masked, config *model.Config, host *model.Host, facts *template.Facts,
	asker decide.Asker) (out *model.Config, reason string, failure *fault.Error) {
	isMissing := false
	with := *facts
	with.Secret = func(name, key string) (string, error) {
		value, err := c.valueOf(config, name, key)
		isMissing = isMissing || err != nil
		return value, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.patience)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	if asker.Gone != nil {
		go func() {
			select {
			case <-asker.Gone:
				cancel()
			case <-ctx.Done():
			}
		}()
	}
	task := c.Task(config)
	made, err := c.inSlot(ctx, &task, &with, waiterOf(host, &asker), func(*Result) {})
	if err != nil {
		return nil, "", unrendered(config, host, facts, err)
	}
	switch {
	case made.Artifact == nil && isMissing:
		return nil, "it names a Secret that is not there by the value of another one", nil
	case made.Artifact == nil:
		return nil, "with the values of its Secrets it does not compile, although it does with placeholders", nil
	}
	out = servedConfig(config, made, false)
	out.Revealed, out.Hash, out.Masked = true, masked.Hash, masked
	return out, "", nil
}
