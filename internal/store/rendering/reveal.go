package rendering

import (
	"context"
	"errors"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/template"
	"glowplug/internal/store/snapshot"
)

// errNoSecrets is the error of a cache without Secrets.
var errNoSecrets = errors.New("there are no Secrets here")

// reveal renders a template once more, with the values of Secrets. The result is for the machine alone: it is
// not cached, its hash is that of the masked rendering, and no error quotes a value.
func (c *Cache) reveal(masked, config *snapshot.Config, host *snapshot.Host, facts *template.Facts,
	asker decide.Asker) (*snapshot.Config, *fault.Error) {
	if facts == nil {
		facts = host.Facts()
	}
	var missing error
	with := *facts
	with.Secret = func(name, key string) (value string, err error) {
		err = errNoSecrets
		if c.opts.Secret != nil {
			value, err = c.opts.Secret(config.Namespace, name, key)
		}
		if err != nil && missing == nil {
			missing = err
		}
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
	made, err := c.inSlot(ctx, &task, &with, sourcesOfAsker(host, &asker), func(*Result) {})
	if err != nil {
		return nil, unrendered(config, host, facts, err)
	}
	if made.Artifact == nil {
		reason := "with the values of its Secrets it does not compile"
		if missing != nil {
			reason = missing.Error()
		}
		return nil, fault.New(fault.Unavailable, nameOf(config)+" cannot be rendered for "+describe(host, facts)+": "+reason)
	}
	out := servedConfig(config, made, false)
	out.Masked, out.Revealed, out.Hash = false, true, masked.Hash
	return out, nil
}
