package template

import (
	"slices"
	"strings"

	"glowplug/internal/domain/template"
	"glowplug/internal/store/kvstore"
)

// Secrets returns an observer of the bucket of Secrets, for after that of the values: a rendering that asks
// for a value that is not there is not ready. Nothing is reconciled before the bucket is read. Secrets is called
// before Run.
func (c *Controller) Secrets() kvstore.Observer {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secretsUnread = true
	return ofSecrets{c}
}

func (c *Controller) awaitsSecrets() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.secretsUnread
}

type ofSecrets struct{ *Controller }

// Load implements kvstore.Observer.
func (o ofSecrets) Load([]kvstore.Item) {
	o.mu.Lock()
	o.secretsUnread = false
	o.mu.Unlock()
	o.recheck(func(Ref, template.SecretKey) bool { return true })
	o.hosts.EnqueueAfter(everyHost, o.pauses.coalesce)
}

// Put implements kvstore.Observer.
func (o ofSecrets) Put(item kvstore.Item) { o.changed(item.Key) }

// Delete implements kvstore.Observer.
func (o ofSecrets) Delete(key string, _ uint64) { o.changed(key) }

func (o ofSecrets) changed(key string) {
	namespace, name, _ := strings.Cut(key, "/")
	o.recheck(func(config Ref, s template.SecretKey) bool { return config.Namespace == namespace && s.Name == name })
}

// recheck queues the hosts whose rendering asks for a value of which isOf is true. The rendering is cached,
// with placeholders.
func (o ofSecrets) recheck(isOf func(config Ref, s template.SecretKey) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ref, s := range o.templates {
		for host, out := range s.hosts {
			isAffected := slices.ContainsFunc(out.secrets, func(s template.SecretKey) bool { return isOf(ref, s) })
			if !isAffected || out.pending {
				continue
			}
			*out = outcome{version: out.version, pending: true}
			o.addPendingLocked(s, 1)
			o.hosts.EnqueueLow(host)
		}
	}
}
