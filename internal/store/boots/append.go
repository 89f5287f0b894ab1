package boots

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	v1 "glowplug/api/v1"
	"glowplug/internal/store/batch"
	"glowplug/internal/store/kvstore"
)

const (
	// numberHeader has the number of the boot in a message.
	numberHeader = "Glowplug-Boot"
	// maxKnown is of how many hosts the newest messages are kept in memory.
	maxKnown = 100_000
	// questions is how many hosts are asked for at the same time.
	questions = 16
	// appendTries is how often a batch is written if other servers write as well.
	appendTries = 4
	// appendTimeout bounds the writing of a batch.
	appendTimeout = 5 * time.Second
)

// position is the newest message of a host; sequence 0 and number -1: there is none.
type position struct {
	sequence uint64
	number   int64
}

// record is a boot as it is stored.
type record struct {
	subject string
	number  int64
	value   []byte
}

// Append stores at most batch.Max boots, which are those of a host in their order. When it returns nil, all that the
// history did not have yet are durable. The history takes no boot twice, and none of a host whose number is not above
// those that it has. After an error the boots are given up; some may be stored.
func (h *History) Append(ctx context.Context, boots []*v1.Boot) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	if err := h.append(ctx, boots); err != nil {
		h.dropped.Add(float64(len(boots)))
		if !h.failing {
			h.failing = true
			h.opts.Logger.Warn("boots that were superseded are not kept", "boots", len(boots), "error", err)
		}
		return err
	}
	for _, boot := range boots {
		h.Content.renew(boot)
	}
	if h.failing {
		h.failing = false
		h.opts.Logger.Info("boots that were superseded are kept again")
	}
	return nil
}

// append stores a batch.
func (h *History) append(ctx context.Context, boots []*v1.Boot) error {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout)
	defer cancel()
	js, stream, err := h.use()
	if err != nil {
		return err
	}
	records, bytes, err := h.records(ctx, boots)
	if err != nil {
		return err
	}
	if err := errors.Join(h.opts.Writable(), h.opts.Room(bytes)); err != nil {
		return err
	}
	for range appendTries {
		if err = h.find(ctx, stream, records); err != nil {
			break
		}
		messages := h.missing(records)
		if len(messages) == 0 {
			return nil
		}
		if err = h.publish(ctx, js, messages); err == nil {
			return nil
		}
		for _, r := range records { // what became of them is not known
			delete(h.known, r.subject)
		}
		if !batch.IsConflict(err) {
			break
		}
	}
	return h.noticed(fmt.Errorf("storing boots in the history: %w", err))
}

// records returns the records of boots, and their size.
func (h *History) records(ctx context.Context, boots []*v1.Boot) (records []record, bytes int, err error) {
	for _, boot := range boots {
		host, number, ok := splitName(boot.Name)
		if !ok {
			return nil, 0, fmt.Errorf("%q is not the name of a boot", boot.Name)
		}
		stored := *boot // the codec sets fields for a moment
		value, err := h.kind.Codec.Encode(&stored)
		if err == nil {
			value, err = h.opts.Cipher.Encrypt(ctx, boot.Namespace+"/"+boot.Name, value)
		}
		if err != nil {
			return nil, 0, err
		}
		records = append(records, record{subject(boot.Namespace, host), number, value})
		bytes += len(value)
	}
	return records, bytes, nil
}

// find asks for the newest messages of the hosts of records, as far as they are not known.
func (h *History) find(ctx context.Context, stream jetstream.Stream, records []record) error {
	if len(h.known) > maxKnown {
		clear(h.known)
	}
	unknown := map[string]*position{}
	asking, ctx := errgroup.WithContext(ctx)
	asking.SetLimit(questions)
	for _, r := range records {
		if _, ok := h.known[r.subject]; ok || unknown[r.subject] != nil {
			continue
		}
		found := &position{number: -1}
		unknown[r.subject] = found
		asking.Go(func() error {
			msg, err := stream.GetLastMsgForSubject(ctx, r.subject)
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			if err == nil {
				*found = position{msg.Sequence, numberOf(msg.Header)}
			}
			return err
		})
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	for subject, found := range unknown {
		h.known[subject] = *found
	}
	return nil
}

// missing returns the messages of the records that the history does not have. The first of each host says which
// message it has to follow, so that all are refused if another server has written in the meantime.
func (h *History) missing(records []record) (messages []*nats.Msg) {
	newest := map[string]int64{}
	for _, r := range records {
		last, ok := newest[r.subject]
		if !ok {
			last = h.known[r.subject].number
		}
		if r.number <= last {
			continue
		}
		msg := nats.NewMsg(r.subject)
		msg.Data = r.value
		msg.Header.Set(numberHeader, strconv.FormatInt(r.number, 10))
		if !ok { // NATS refuses it in the other messages of a subject in a batch
			msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(h.known[r.subject].sequence, 10))
		}
		newest[r.subject] = r.number
		messages = append(messages, msg)
	}
	return messages
}

// publish stores messages, and notes their sequences. Two of one host are in one batch: by itself, the second one would
// follow that of another server.
func (h *History) publish(ctx context.Context, js jetstream.JetStream, messages []*nats.Msg) error {
	follows := func(msg *nats.Msg) bool { return msg.Header.Get(jetstream.ExpectedLastSubjSeqHeader) == "" }
	publish := batch.PublishEach
	if len(messages) > batch.Small || slices.ContainsFunc(messages, follows) {
		publish = batch.Publish
	}
	sequences, err := publish(ctx, js, messages)
	if err != nil {
		return err
	}
	for i, msg := range messages {
		h.known[msg.Subject] = position{sequences[i], numberOf(msg.Header)}
	}
	return nil
}

// numberOf returns the number of the boot of a message.
func numberOf(header nats.Header) int64 {
	number, _ := strconv.ParseInt(header.Get(numberHeader), 10, 64) // without one it is another program's
	return number
}

// splitName returns the parts of the name of a boot: the name of its host, or of its unknown machine, and its number.
func splitName(name string) (host string, number int64, ok bool) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 {
		return "", 0, false
	}
	number, err := strconv.ParseInt(name[i+1:], 10, 64)
	return name[:i], number, err == nil && number >= 0 && strconv.FormatInt(number, 10) == name[i+1:]
}

// subject returns the subject of the boots of a host; "" stands for all namespaces, or for all hosts.
func subject(namespace, host string) string {
	return historySubjects + encodeToken(namespace) + "." + encodeToken(host)
}

// plainInKeys are characters that keys of a bucket have as they are, and one token of a subject has not.
var plainInKeys = strings.NewReplacer(".", "=2e", "/", "=2f")

// encodeToken writes what is not plain in a subject as kvstore does, and dots and slashes as well.
func encodeToken(s string) string {
	if s == "" {
		return "*"
	}
	return plainInKeys.Replace(kvstore.EncodeKey(s))
}

// splitSubject is the inverse of subject for one host.
func splitSubject(subject string) (namespace, host string, err error) {
	first, second, _ := strings.Cut(strings.TrimPrefix(subject, historySubjects), ".")
	if namespace, err = decodeToken(first); err != nil {
		return "", "", err
	}
	host, err = decodeToken(second)
	return namespace, host, err
}

// decodeToken is the inverse of encodeToken.
func decodeToken(token string) (string, error) {
	return url.PathUnescape(strings.ReplaceAll(token, "=", "%"))
}
