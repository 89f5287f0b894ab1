package iscsi

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"
)

// The stages of a login, as CSG and NSG number them.
const (
	stageSecurity    = 0
	stageOperational = 1
	stageFull        = 3
)

// maxExchanges bounds the PDUs of one login.
const maxExchanges = 32

// refusal is a login status: class and detail (RFC 7143, section 11.13.5), and its
// cause for the log.
type refusal struct {
	status uint16
	cause  error
}

func (r *refusal) Error() string { return fmt.Sprintf("login refused (%04x): %v", r.status, r.cause) }
func (r *refusal) Unwrap() error { return r.cause }

const (
	statusInitiator  = 0x0200
	statusAuth       = 0x0201
	statusForbidden  = 0x0202
	statusNotFound   = 0x0203
	statusVersion    = 0x0205
	statusTooMany    = 0x0206
	statusMissing    = 0x0207
	statusType       = 0x0209
	statusNoSession  = 0x020a
	statusStage      = 0x020b
	statusOverloaded = 0x0302
)

func refuse(status uint16, format string, args ...any) error {
	return &refusal{status, fmt.Errorf(format, args...)}
}

// ErrNotFound is returned by Options.Resolve for a name without a target, and
// ErrForbidden for a target of other initiators. Any other error tells the initiator to
// try again later.
var (
	ErrNotFound  = errors.New("no such target")
	ErrForbidden = errors.New("initiator is not allowed here")
)

// ErrUnauthenticated is the cause in Hooks.Refused where an initiator did not prove who it is.
var ErrUnauthenticated = errors.New("authentication failed")

// negotiation is a login under way.
type negotiation struct {
	*conn
	text     []byte // continued over several PDUs
	named    bool   // the first keys have been read
	declared bool   // the target's own keys have been sent
	chap     *chap  // nil: nothing to prove
	proved   bool
}

// login brings the connection to the full feature phase, or answers why not.
func (c *conn) login() error {
	c.net.SetDeadline(c.loginBy)
	n := &negotiation{conn: c}
	for range maxExchanges {
		r, err := c.next(digests{})
		if err != nil {
			if errors.Is(err, io.EOF) && !n.named {
				return errLogout // a check whether the port is open
			}
			return fmt.Errorf("login: %w", err)
		}
		full, err := n.exchange(r)
		if err != nil {
			var no *refusal
			if errors.As(err, &no) {
				_ = n.respond(r, 0, nil, no.status) // the connection ends either way
			}
			return err
		}
		if full {
			return nil
		}
	}
	return fmt.Errorf("%w: login takes too many exchanges", errProtocol)
}

// exchange answers one login PDU (RFC 7143, section 11.12), and reports whether the
// login is complete.
func (n *negotiation) exchange(r request) (full bool, err error) {
	if r.opcode() != opLogin {
		return false, fmt.Errorf("%w: opcode %#02x in login", errProtocol, r.opcode())
	}
	flags := r.flags()
	transit, more := flags&0x80 != 0, flags&0x40 != 0
	stage, next := flags>>2&3, flags&3
	if !n.named && len(n.text) == 0 {
		if err := n.first(r, stage); err != nil {
			return false, err
		}
	}
	if stage != n.stage || transit && (more || next <= stage || next == 2) {
		return false, refuse(statusStage, "stage %d to %d in stage %d", stage, next, n.stage)
	}
	if n.text = append(n.text, r.data...); len(n.text) > maxText {
		return false, refuse(statusInitiator, "%w", errTooLong)
	}
	if more {
		return false, n.respond(r, stage<<2, nil, 0)
	}
	answer, err := n.answer(stage)
	if err != nil {
		return false, err
	}
	if !transit || n.chap != nil && !n.proved {
		return false, n.respond(r, stage<<2, answer, 0)
	}
	if n.stage = next; next == stageFull {
		if err := n.enter(); err != nil {
			return false, err
		}
	}
	return next == stageFull, n.respond(r, flagFinal|stage<<2|next, answer, 0)
}

// answer returns the answers to the keys of the initiator in a stage.
func (n *negotiation) answer(stage byte) (answer pairs, err error) {
	keys, err := parseText(n.text)
	if err != nil {
		return nil, refuse(statusInitiator, "%w", err)
	}
	n.text = n.text[:0]
	if !n.named {
		if err := n.introduce(keys); err != nil {
			return nil, err
		}
		n.named = true
		if !n.discovery {
			answer.add("TargetPortalGroupTag", "1")
		}
	}
	if stage == stageSecurity {
		err = n.authenticate(keys, &answer)
	} else {
		err = n.operate(keys, &answer)
	}
	return answer, err
}

// first reads the fields that the first PDU's header fixes (RFC 7143, section 11.12).
func (n *negotiation) first(r request, stage byte) error {
	n.expCmdSN = r.cmdSN()
	copy(n.isid[:], r.head[8:14])
	n.cid = binary.BigEndian.Uint16(r.head[20:])
	n.stage = stage
	if r.head[3] != 0 {
		return refuse(statusVersion, "version %d at least", r.head[3])
	}
	switch tsih := binary.BigEndian.Uint16(r.head[14:]); {
	case stage > stageOperational:
		return refuse(statusStage, "login begins in stage %d", stage)
	case tsih != 0 && n.server.sessions.has(tsih):
		return refuse(statusTooMany, "a session has one connection")
	case tsih != 0:
		return refuse(statusNoSession, "no session %d", tsih)
	}
	return nil
}

// introduce reads the names of the initiator and the target, and finds the target.
func (n *negotiation) introduce(keys pairs) error {
	name, ok := keys.get("InitiatorName")
	if !ok {
		return refuse(statusMissing, "no InitiatorName")
	}
	if !validName(name) {
		return refuse(statusInitiator, "InitiatorName %q", name)
	}
	n.initiator = name
	switch kind, given := keys.get("SessionType"); {
	case given && kind == "Discovery":
		n.discovery = true
		return nil
	case given && kind != "Normal":
		return refuse(statusType, "SessionType %q", kind)
	}
	iqn, ok := keys.get("TargetName")
	if !ok {
		return refuse(statusMissing, "no TargetName")
	}
	if !validName(iqn) {
		return refuse(statusNotFound, "TargetName %q", iqn)
	}
	return n.resolve(iqn)
}

func (n *negotiation) resolve(iqn string) error {
	target, err := n.server.options.Resolve(n.loginTo(iqn))
	if err == nil {
		n.target = target
		if !target.allows(n.initiator) {
			err = ErrForbidden
		}
	}
	// The requested name is not a part of the error: it may have a secret of the caller's own.
	switch {
	case errors.Is(err, ErrNotFound):
		return refuse(statusNotFound, "%w", err)
	case errors.Is(err, ErrForbidden):
		return refuse(statusForbidden, "%w", err)
	case err != nil:
		return refuse(statusOverloaded, "%w", err)
	}
	if target.CHAP.Password != "" {
		n.chap = &chap{want: target.CHAP}
	}
	return nil
}

// authenticate answers the keys of the security stage.
func (n *negotiation) authenticate(keys pairs, answer *pairs) error {
	if methods, ok := keys.get("AuthMethod"); ok {
		method := n.authMethod()
		if !slices.Contains(list(methods), method) {
			return refuse(statusAuth, "AuthMethod %q, where %s is due", methods, method)
		}
		answer.add("AuthMethod", method)
	}
	if n.chap == nil {
		return nil
	}
	var more pairs
	var err error
	if algorithms, ok := keys.get("CHAP_A"); ok && n.chap.newHash == nil {
		more, err = n.chap.begin(algorithms)
	} else if _, ok := keys.get("CHAP_R"); ok && !n.proved {
		more, err = n.prove(keys)
		n.proved = err == nil
	}
	switch {
	case errors.Is(err, errGuesses), errors.Is(err, ErrShutdown):
		return refuse(statusOverloaded, "%w", err)
	case err != nil:
		return refuse(statusAuth, "%w", err)
	}
	*answer = append(*answer, more...)
	return nil
}

func (n *negotiation) authMethod() string {
	if n.chap != nil {
		return "CHAP"
	}
	return none
}

// operate answers the keys of the operational stage.
func (n *negotiation) operate(keys pairs, answer *pairs) error {
	if n.chap != nil && !n.proved {
		return refuse(statusAuth, "authentication left out")
	}
	for _, each := range keys {
		if value, reply := n.params.negotiate(each.key, each.value); reply {
			answer.add(each.key, value)
		}
	}
	if !n.declared {
		n.declared = true
		answer.add("MaxRecvDataSegmentLength", strconv.Itoa(maxReceive))
	}
	return nil
}

// enter begins the session, and ends the session that it replaces (RFC 7143, section 6.3.5).
func (n *negotiation) enter() error {
	if n.discovery {
		return nil
	}
	old, ok := n.server.sessions.add(n.conn)
	if !ok {
		return refuse(statusOverloaded, "no session number is free")
	}
	if old != nil {
		old.end(ErrReinstated)
		select {
		case <-old.done:
		case <-time.After(time.Until(n.loginBy)):
		}
	}
	n.drive = newDrive(n.target)
	n.session = &Session{Login: n.loginTo(n.target.IQN), ID: n.server.lastID.Add(1), Tag: n.target.Tag}
	// Before the answer: Drop has to find every session that an initiator may use.
	n.public.Store(n.session)
	return nil
}

// loginTo returns the login to a target, or for discovery if that is empty.
func (c *conn) loginTo(iqn string) Login {
	return Login{Initiator: c.initiator, Target: iqn, Remote: c.remote, Local: c.local}
}

// respond sends a login response.
func (n *negotiation) respond(r request, flags byte, answer pairs, status uint16) error {
	h := newHeader(opLoginDone, flags, r.tag())
	copy(h[8:14], r.head[8:14])
	binary.BigEndian.PutUint16(h[14:], n.tsih)
	n.numbers(&h)
	binary.BigEndian.PutUint16(h[36:], status)
	return n.out.pdu(&h, answer.encode(), digests{})
}
