package iscsi

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLoginAnswers(t *testing.T) {
	disk := newMemory(make([]byte, 16*blockSize))
	_, address := start(t, Options{Resolve: func(l Login) (*Target, error) {
		switch l.Target {
		case testTarget:
			return &Target{IQN: l.Target, Disk: disk}, nil
		case "iqn.x:closed":
			return &Target{IQN: l.Target, Disk: disk, AllowedInitiators: []string{"iqn.other"}}, nil
		case "iqn.x:mine":
			return &Target{IQN: l.Target, Disk: disk, AllowedInitiators: []string{"iqn.other", strings.ToUpper(testInitiator)}},
				nil
		case "iqn.x:chap":
			return &Target{IQN: l.Target, Disk: disk, CHAP: CHAP{Username: "u", Password: "secret"}}, nil
		case "iqn.x:forbidden":
			return nil, fmt.Errorf("%w: not yours", ErrForbidden)
		case "iqn.x:later":
			return nil, errors.New("store away")
		}
		return nil, ErrNotFound
	}})
	for _, test := range []struct {
		name   string
		flags  byte
		keys   pairs
		status uint16
	}{
		{"straight to work", operationalToFull, named(testTarget), 0},
		{"without authentication", securityToFull, named(testTarget, pair{"AuthMethod", "CHAP,None"}), 0},
		{"discovery", operationalToFull, named(""), 0},
		{"allowed in another case", operationalToFull, named("iqn.x:mine"), 0},
		{"unknown", operationalToFull, named("iqn.x:nobody"), statusNotFound},
		{"not allowed", operationalToFull, named("iqn.x:closed"), statusForbidden},
		{"refused by the owner", operationalToFull, named("iqn.x:forbidden"), statusForbidden},
		{"owner in trouble", operationalToFull, named("iqn.x:later"), statusOverloaded},
		{"authentication left out", operationalToFull, named("iqn.x:chap"), statusAuth},
		{"no method in common", security, named("iqn.x:chap", pair{"AuthMethod", "None"}), statusAuth},
		{"nobody to authenticate to", security, named(testTarget, pair{"AuthMethod", "CHAP"}), statusAuth},
		{"no name", operationalToFull, pairs{{"TargetName", testTarget}}, statusMissing},
		{"no target", operationalToFull, pairs{{"InitiatorName", testInitiator}}, statusMissing},
		{"name with a newline", operationalToFull, pairs{{"InitiatorName", "iqn\nx"}, {"TargetName", testTarget}},
			statusInitiator},
		{"strange session", operationalToFull, named(testTarget, pair{"SessionType", "Strange"}), statusType},
		{"backwards", 0x84, named(testTarget), statusStage},
		{"reserved stage", 0x86, named(testTarget), statusStage},
		{"full at once", 0x8c, named(testTarget), statusStage},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := dial(t, address)
			_, status, _ := c.exchange(test.flags, test.keys)
			if status != test.status {
				t.Errorf("status %04x, want %04x", status, test.status)
			}
			if test.status != 0 {
				c.closed()
			}
		})
	}
}

func TestNegotiation(t *testing.T) {
	for _, test := range []struct{ key, value, answer string }{
		{"HeaderDigest", "CRC32C,None", "CRC32C"},
		{"HeaderDigest", "None,CRC32C", "None"},
		{"DataDigest", "MD9,None", "None"},
		{"DataDigest", "MD9", "Reject"},
		{"MaxRecvDataSegmentLength", "262144", ""},
		{"MaxRecvDataSegmentLength", "0x2000", ""},
		{"MaxRecvDataSegmentLength", "511", "Reject"},
		{"MaxRecvDataSegmentLength", "16777216", "Reject"},
		{"MaxBurstLength", "16776192", "262144"},
		{"MaxBurstLength", "65536", "65536"},
		{"MaxBurstLength", "-1", "Reject"},
		{"FirstBurstLength", "262144", "65536"},
		{"MaxConnections", "8", "1"},
		{"MaxConnections", "0", "Reject"},
		{"MaxOutstandingR2T", "16", "1"},
		{"ErrorRecoveryLevel", "2", "0"},
		{"DefaultTime2Wait", "0", "2"},
		{"DefaultTime2Wait", "20", "20"},
		{"DefaultTime2Retain", "20", "0"},
		{"InitialR2T", "No", "Yes"},
		{"ImmediateData", "Yes", "No"},
		{"ImmediateData", "yes", "Reject"},
		{"DataPDUInOrder", "No", "Yes"},
		{"DataSequenceInOrder", "Yes", "Yes"},
		{"IFMarker", "No", "No"},
		{"OFMarkInt", "2048", "Irrelevant"},
		{"TaskReporting", "FastAbort,RFC3720", "RFC3720"},
		{"iSCSIProtocolLevel", "2", "1"},
		{"InitiatorAlias", "node", ""},
		{"X-com.example.colour", "blue", "NotUnderstood"},
	} {
		p := defaultParams()
		answer, reply := p.negotiate(test.key, test.value)
		if answer != test.answer || reply != (test.answer != "") {
			t.Errorf("%s=%s: %q, %v; want %q", test.key, test.value, answer, reply, test.answer)
		}
	}
}

// chapLogin authenticates as an initiator does, in three exchanges.
func chapLogin(c *client, algorithms, user, password string, mutual pairs) (uint16, pairs, *chap) {
	c.t.Helper()
	status, keys, mine := c.answered(algorithms, user, password, mutual)
	if status != 0 {
		return status, nil, nil
	}
	flags, status, answer := c.exchange(securityToFull, keys)
	if status == 0 && flags != securityToFull {
		c.t.Fatalf("flags %02x after CHAP", flags)
	}
	return status, answer, mine
}

// answered goes as far as the target's challenge, and returns the answer to it.
func (c *client) answered(algorithms, user, password string, mutual pairs) (uint16, pairs, *chap) {
	c.t.Helper()
	if _, status, _ := c.exchange(security, named(testTarget, pair{"AuthMethod", "CHAP,None"})); status != 0 {
		return status, nil, nil
	}
	_, status, answer := c.exchange(security, pairs{{"CHAP_A", algorithms}})
	if status != 0 {
		return status, nil, nil
	}
	a, _ := answer.get("CHAP_A")
	number, _ := number(a, 0, 255)
	id, _ := answer.get("CHAP_I")
	text, _ := answer.get("CHAP_C")
	challenge, err := parseBinary(text)
	if err != nil {
		c.t.Fatal(err)
	}
	mine := &chap{newHash: chapHashes[number]}
	var n int
	fmt.Sscan(id, &n)
	keys := pairs{{"CHAP_N", user}, {"CHAP_R", "0x" + hex.EncodeToString(mine.respond(byte(n), password, challenge))}}
	for _, each := range mutual {
		if each.value == "reflected" {
			each.value = text
		}
		keys = append(keys, each)
	}
	return 0, keys, mine
}

func TestCHAP(t *testing.T) {
	disk := newMemory(make([]byte, blockSize))
	options := func(c CHAP) Options {
		return Options{Resolve: func(l Login) (*Target, error) { return &Target{IQN: l.Target, Disk: disk, CHAP: c}, nil }}
	}
	_, oneWay := start(t, options(CHAP{Username: "user", Password: "a long secret"}))
	_, mutual := start(t, options(CHAP{"user", "a long secret", "target", "another secret"}))
	back := pairs{{"CHAP_I", "9"}, {"CHAP_C", "0b" + "AAECAwQFBgcICQoLDA0ODw=="}}
	for _, test := range []struct {
		name, address, algorithms, user, password string
		mutual                                    pairs
		status                                    uint16
	}{
		{"MD5", oneWay, "5", "user", "a long secret", nil, 0},
		{"the initiator's preference", oneWay, "99,7,5", "user", "a long secret", nil, 0},
		{"SHA3", oneWay, "8", "user", "a long secret", nil, 0},
		{"wrong secret", oneWay, "5", "user", "a wrong secret", nil, statusAuth},
		{"wrong name", oneWay, "5", "root", "a long secret", nil, statusAuth},
		{"no algorithm", oneWay, "1,2", "user", "a long secret", nil, statusAuth},
		{"mutual without a secret", oneWay, "5", "user", "a long secret", back, statusAuth},
		{"mutual", mutual, "5", "user", "a long secret", back, 0},
		{"mutual not asked for", mutual, "5", "user", "a long secret", nil, 0},
		{"reflection", mutual, "5", "user", "a long secret", pairs{{"CHAP_I", "9"}, {"CHAP_C", "reflected"}}, statusAuth},
		{"no challenge", mutual, "5", "user", "a long secret", pairs{{"CHAP_I", "9"}}, statusAuth},
	} {
		t.Run(test.name, func(t *testing.T) {
			status, answer, mine := chapLogin(dial(t, test.address), test.algorithms, test.user, test.password, test.mutual)
			if status != test.status {
				t.Fatalf("status %04x, want %04x", status, test.status)
			}
			name, proves := answer.get("CHAP_N")
			if want := test.mutual != nil && status == 0; proves != want {
				t.Fatalf("target proves itself: %v, want %v", proves, want)
			}
			if !proves {
				return
			}
			response, _ := answer.get("CHAP_R")
			challenge, _ := parseBinary(back[1].value)
			if want := "0x" + hex.EncodeToString(mine.respond(9, "another secret", challenge)); name != "target" ||
				response != want {
				t.Errorf("target answers %s %s, want %s", name, response, want)
			}
		})
	}
}

func TestLoginInPieces(t *testing.T) {
	_, address := start(t, serving(newMemory(randomBytes(8*blockSize))))
	c := dial(t, address)
	// iPXE asks for the digests in a stage of its own; open-iscsi may continue a text.
	flags, status, _ := c.exchange(0x40, named(testTarget)[:1])
	if status != 0 || flags != 0 {
		t.Fatalf("continued text: status %04x, flags %02x", status, flags)
	}
	flags, status, answer := c.exchange(0x81, named(testTarget, pair{"AuthMethod", "None"})[1:])
	if tag, _ := answer.get("TargetPortalGroupTag"); status != 0 || flags != 0x81 || tag != "1" {
		t.Fatalf("security: status %04x, flags %02x, %v", status, flags, answer)
	}
	if flags, status, _ = c.exchange(0x04, pairs{{"HeaderDigest", "None"}}); status != 0 || flags != 0x04 {
		t.Fatalf("operational: status %04x, flags %02x", status, flags)
	}
	if flags, status, _ = c.exchange(operationalToFull, pairs{{"MaxBurstLength", "65536"}}); status != 0 ||
		flags != operationalToFull {
		t.Fatalf("last: status %04x, flags %02x", status, flags)
	}
	if got := c.readBlocks(0, 8); len(got) != 8*blockSize {
		t.Errorf("%d bytes", len(got))
	}
}

func TestDiscovery(t *testing.T) {
	var names []string
	for i := range 700 {
		names = append(names, fmt.Sprintf("iqn.2000-02.com.example:cd-%04d", i))
	}
	options := serving(newMemory(nil))
	options.Portal = "[2001:db8::1]:3260"
	options.Discover = func(l Login) []string {
		if l.Initiator != testInitiator {
			return nil
		}
		return names
	}
	_, address := start(t, options)
	c := dial(t, address)
	c.login("")
	ask := func(which string) pairs {
		var text []byte
		tag := uint32(noTag)
		request := pairs{{"SendTargets", which}}.encode()
		for {
			c.request(opText, flagFinal, 0, tag, nil, request)
			head, data := c.must()
			if head[0] != opTextDone || len(data) > defaultSegment {
				t.Fatalf("opcode %#x, %d bytes", head[0], len(data))
			}
			text = append(text, data...)
			if head[1]&flagFinal != 0 {
				break
			}
			tag, request = textTag, nil
		}
		var all pairs // longer than one exchange may be
		for _, line := range strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00") {
			key, value, _ := strings.Cut(line, "=")
			all.add(key, value)
		}
		return all
	}
	all := ask("All")
	if len(all) != 2*len(names) || all[0].value != names[0] || all[1] != (pair{"TargetAddress", "[2001:db8::1]:3260,1"}) {
		t.Fatalf("%d keys, first %v", len(all), all[:2])
	}
	if one := ask(names[5]); len(one) != 2 || one[0].value != names[5] {
		t.Errorf("one by name: %v", one)
	}
	c.request(opCommand, 0xc0, 0, 0, make([]byte, 16), nil)
	if head, _ := c.must(); head[0] != opReject {
		t.Errorf("command in discovery: opcode %#x", head[0])
	}
	own := dial(t, address)
	own.login(names[3])
	own.request(opText, flagFinal, 0, noTag, nil, pairs{{"SendTargets", ""}}.encode())
	_, data := own.must()
	if keys, _ := parseText(data); !slices.Contains(keys, pair{"TargetName", names[3]}) || len(keys) != 2 {
		t.Errorf("own target: %v", keys)
	}
}
