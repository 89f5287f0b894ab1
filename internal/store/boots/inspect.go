package boots

import (
	"context"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	v1 "glowplug/api/v1"
	"glowplug/internal/domain/model"
	"glowplug/internal/store/encryption"
	"glowplug/internal/store/session"
)

// Inspection is the result of Inspect.
type Inspection struct {
	// Boots are those in the history, and Contents what machines were given.
	Boots, Contents int
	// NotKept are boots of which it is not known any more what the machine was given.
	NotKept []string
}

// Inspect reads the history and the content, as they are stored. newest are the boots that are not in the history yet.
// problem is called with what cannot be used.
func Inspect(ctx context.Context, js jetstream.JetStream, cipher *encryption.Cipher, newest []*v1.Boot,
	problem func(object, reason string)) (result Inspection, err error) {
	h := NewHistory(HistoryOptions{Cipher: cipher})
	kept := map[string]bool{}
	unreadable, err := session.ReadAll(ctx, js, ContentStream, func(m session.Message) error {
		result.Contents++
		token := strings.TrimPrefix(m.Subject, contentSubjects)
		kept[token] = true
		name, err := decodeToken(token)
		if err == nil {
			_, _, err = h.opts.Cipher.Decrypt(ctx, name, m.Data)
		}
		if err != nil {
			problem(ContentStream+" "+token, err.Error())
		}
		return nil
	})
	if err != nil {
		return result, err
	}
	lost := func(stream string, n uint64) {
		if n > 0 {
			problem(stream, fmt.Sprintf("NATS counts %d records that it cannot read", n))
		}
	}
	lost(ContentStream, unreadable)
	content := func(boot *v1.Boot) {
		for _, name := range []string{model.ScriptContent(boot), model.ConfigContent(boot)} {
			if name != "" && !kept[encodeToken(name)] {
				result.NotKept = append(result.NotKept, boot.Namespace+"/"+boot.Name)
				return
			}
		}
	}
	for _, boot := range newest {
		content(boot)
	}
	unreadable, err = session.ReadAll(ctx, js, HistoryStream, func(m session.Message) error {
		result.Boots++
		boot, err := h.decode(ctx, m)
		if err != nil {
			problem(HistoryStream+" "+strings.TrimPrefix(m.Subject, historySubjects), err.Error())
			return nil
		}
		content(boot)
		return nil
	})
	lost(HistoryStream, unreadable)
	return result, err
}
