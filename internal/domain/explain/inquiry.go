package explain

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"glowplug/internal/domain/decide"
	"glowplug/internal/domain/fault"
	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/model"
	"glowplug/internal/domain/netaddr"
)

// Inquiry is the question which config a machine receives.
type Inquiry struct {
	// Type is the endpoint: "ignition" or "kickstart".
	Type string
	// As is AsMachine or AsBelieved.
	As string
	// Host is the name of the machine's host, and Namespace its namespace. Without a
	// Namespace, it is the host in the namespace Preferred, or else the only one with the
	// name. Without a Host, the claims or From name the machine.
	Namespace, Host, Preferred string
	// Claims are those in the machine's request.
	Claims identity.Claims
	// From is the address that the machine asks from; zero: that of its host.
	From netip.Addr
	// Accept and UserAgent are the headers of the machine; both "": those of its Ignition.
	Accept, UserAgent string
	// At is the time of the inquiry.
	At time.Time
	// Sender sent the inquiry. It is the machine where the inquiry names none.
	Sender identity.Caller
	// Locate returns the client with an address, as the network shows it, and AddressesOf the
	// addresses with a hardware address, lowest first; nil: the network is unknown.
	Locate      func(netip.Addr) identity.Caller
	AddressesOf func(netaddr.MAC) []netip.Addr
	// Gone is closed when the sender has gone away; nil: never.
	Gone <-chan struct{}
}

// zeroMAC is no hardware address.
var zeroMAC netaddr.MAC

// anyType is the Accept header of a client that takes every config.
const anyType = "*/*"

// ParseInquiry reads the query of an inquiry: the claims of the serving endpoints, and
// endpoint, as, host, namespace, from, accept and user-agent.
func ParseInquiry(rawQuery string) (*Inquiry, *fault.Error) {
	claims, malformed := identity.ParseClaims(rawQuery)
	if malformed != nil {
		return nil, malformed
	}
	query, _ := url.ParseQuery(rawQuery) // keys that cannot be read are ignored, as in claims
	in := &Inquiry{
		Type: cmp.Or(query.Get("endpoint"), decide.Ignition), As: cmp.Or(query.Get("as"), AsMachine),
		Host: query.Get("host"), Preferred: query.Get("namespace"), Claims: claims,
		Accept: query.Get("accept"), UserAgent: query.Get("user-agent"),
	}
	if namespace, name, ok := strings.Cut(in.Host, "/"); ok {
		in.Namespace, in.Host = namespace, name
	}
	from := query.Get("from")
	switch addr, err := netaddr.ParseIP(from); {
	case in.Type != decide.Ignition && in.Type != decide.Kickstart:
		return nil, fault.New(fault.Malformed, "the parameter endpoint is malformed: want ignition or kickstart")
	case in.As != AsMachine && in.As != AsBelieved:
		return nil, fault.New(fault.Malformed, "the parameter as is malformed: want machine or believed")
	case from != "" && err != nil:
		return nil, fault.New(fault.Malformed, "the parameter from is malformed: want an IPv4 or IPv6 address")
	case from != "":
		in.From = addr
	}
	return in, nil
}

// named returns the host that the inquiry names; nil where it names none.
func (in *Inquiry) named(view model.View) (*model.Host, *fault.Error) {
	if in.Host == "" {
		return nil, nil
	}
	if h := view.Host(model.Ref{Namespace: cmp.Or(in.Namespace, in.Preferred), Name: in.Host}); h != nil {
		return h, nil
	}
	found := view.HostsNamed(in.Host)
	names := Texts(found)
	slices.Sort(names)
	switch {
	case in.Namespace != "" && len(found) > 0:
		return nil, fault.New(fault.NoMatch, "there is no BareMetalHost "+in.Namespace+"/"+in.Host+
			"; another namespace has one: "+strings.Join(names, ", "))
	case in.Namespace != "":
		return nil, fault.New(fault.NoMatch, "there is no BareMetalHost "+in.Namespace+"/"+in.Host)
	case len(found) == 0:
		return nil, fault.New(fault.NoMatch, "there is no BareMetalHost "+in.Host+" in any namespace")
	case len(found) > 1:
		return nil, fault.New(fault.Malformed, "the name "+in.Host+" is ambiguous; name one of "+strings.Join(names, ", "))
	}
	return found[0], nil
}

// leavesHeaders reports whether the headers are those of the machine's Ignition.
func (in *Inquiry) leavesHeaders() bool {
	return in.Type == decide.Ignition && in.Accept == "" && in.UserAgent == ""
}

// asMachine returns the request as the machine itself sends it; host is the named one or nil.
// addresses are those of machine.
func (in *Inquiry) asMachine(view model.View, host *model.Host) (req *decide.Request, addresses []netip.Addr) {
	req = in.request()
	req.Caller, addresses = in.machine(view, host)
	req.Explains = true
	return req, addresses
}

// request returns the request without its sender.
func (in *Inquiry) request() *decide.Request {
	return &decide.Request{
		Type: in.Type, At: in.At, Claims: in.Claims, Accept: in.Accept, UserAgent: in.UserAgent, Gone: in.Gone, Last: true,
	}
}

// machine returns the machine as the network shows it: by From, by the claimed address, or
// by the addresses of its host. A host without a known address is taken for one in its
// bootSources, or without these on the server's own network. addresses are those that the
// neighbour table has for its hardware address, where the machine is found by that: it is
// taken for the one with the first.
func (in *Inquiry) machine(view model.View, host *model.Host) (machine identity.Caller, addresses []netip.Addr) {
	if host == nil {
		host = decide.ClaimedHost(view, &in.Claims)
	}
	switch addr := cmp.Or(in.From, in.Claims.IP); {
	case addr.IsValid():
		return in.locate(addr), nil
	case host != nil && len(host.IPs) > 0:
		return in.locate(host.IPs[0]), nil
	case host != nil:
		if machine, addresses = in.onLink(host.MACs); addresses == nil && len(host.BootSources) > 0 {
			machine = in.locate(host.BootSources[0].Addr())
		}
		return machine, addresses
	case in.Claims.MAC != zeroMAC:
		return in.onLink([]netaddr.MAC{in.Claims.MAC})
	case len(decide.Named(&in.Claims)) == 0:
		return in.Sender, nil
	}
	return identity.Caller{}, nil
}

// onLink returns the machine with hardware addresses on the server's own network, with the
// first of its addresses where these are known; zero for no hardware addresses.
func (in *Inquiry) onLink(macs []netaddr.MAC) (machine identity.Caller, addresses []netip.Addr) {
	for _, mac := range macs {
		if in.AddressesOf == nil {
			break
		}
		if addresses = in.AddressesOf(mac); len(addresses) > 0 {
			return in.locate(addresses[0]), addresses
		}
	}
	if len(macs) == 0 {
		return identity.Caller{}, nil
	}
	return identity.Caller{MAC: macs[0]}, nil
}

func (in *Inquiry) locate(addr netip.Addr) identity.Caller {
	if in.Locate == nil {
		return identity.Caller{Addr: addr}
	}
	return in.Locate(addr)
}

// asBelieved returns the request of a believed caller who asks for the machine; host is the
// named one or nil.
func (in *Inquiry) asBelieved(host *model.Host) *decide.Request {
	req := in.request()
	req.Caller.Believed = true
	if in.leavesHeaders() {
		req.Accept = anyType
	}
	c := &req.Claims
	if !c.IP.IsValid() {
		c.IP = in.From
	}
	if host != nil {
		claimHost(c, host)
	}
	if !c.Any() {
		req.Caller = in.Sender
		req.Caller.Believed = true
	}
	return req
}

// claimHost adds claims that identify a host, in place of those that do not.
func claimHost(c *identity.Claims, h *model.Host) {
	if len(h.MACs) > 0 && !slices.Contains(h.MACs, c.MAC) {
		c.MAC = h.MACs[0]
	}
	if len(h.IPs) > 0 && !c.IP.IsValid() {
		c.IP = h.IPs[0]
	}
	c.UUID = cmp.Or(c.UUID, h.UUID)
	if c.Hostname == "" && len(h.Hostnames) > 0 {
		c.Hostname = h.Hostnames[0]
	}
}

// addedClaims returns the claims of a believed caller that the inquiry does not have, as the
// parameters of a URL: the address, and what identifies a named host beside it.
func (in *Inquiry) addedClaims(c *identity.Claims) string {
	added := "ip=" + c.IP.String()
	switch {
	case c.MAC != in.Claims.MAC:
		return "mac=" + c.MAC.String() + "&" + added
	case in.Claims.MAC != zeroMAC: // it identifies the host
	case c.UUID != in.Claims.UUID:
		return "uuid=" + c.UUID + "&" + added
	case c.Hostname != in.Claims.Hostname:
		return "hostname=" + c.Hostname + "&" + added
	}
	return added
}

// otherClient is another client that asks for the same machine.
type otherClient struct {
	// name is the subject of a sentence.
	name string
	req  *decide.Request
}

// others returns the clients with whose answers the answer to an inquiry is compared.
// installer is the machine's request at the other endpoint, and host the named one or nil.
func (in *Inquiry) others(host *model.Host, machine, believed, installer *decide.Request) []otherClient {
	if in.As == AsBelieved {
		return []otherClient{{"the machine itself", machine}}
	}
	var all []otherClient
	if host != nil {
		if claimed, ok := claiming(machine, host); ok {
			all = append(all, claimed)
		}
	}
	curl := *machine
	curl.Accept, curl.UserAgent = anyType, "curl"
	name, believer := "an installer that asks for a kickstart", "a believed caller"
	if in.From.IsValid() && !in.Claims.IP.IsValid() { // asBelieved claims it
		believer += " with " + in.addedClaims(&believed.Claims)
	}
	if installer.Type == decide.Ignition {
		name = "an Ignition on the machine"
	}
	return append(all, []otherClient{
		{"curl on the machine", &curl},
		{name, installer},
		{believer + " (kubectl get --raw, or curl at the admin listener)", believed},
	}...)
}

// claiming returns the machine of a host that boots from one of its bootSources and claims to
// be the host: the network alone does not show who it is.
func claiming(machine *decide.Request, host *model.Host) (client otherClient, ok bool) {
	req, addr := *machine, machine.Caller.Addr
	inSources := slices.ContainsFunc(host.BootSources, func(p netip.Prefix) bool { return p.Contains(addr) })
	c := &req.Claims
	isClaimed := c.MAC != zeroMAC || c.OtherMAC != "" || c.UUID != "" || c.Hostname != ""
	if !inSources || isClaimed || slices.Contains(host.IPs, addr) {
		return otherClient{}, false
	}
	claim := ""
	switch {
	case len(host.MACs) > 0:
		req.Claims.MAC, claim = host.MACs[0], "mac="+strings.ReplaceAll(host.MACs[0].String(), ":", "-")
	case host.UUID != "":
		req.Claims.UUID, claim = host.UUID, "uuid="+host.UUID
	case len(host.Hostnames) > 0:
		req.Claims.Hostname, claim = host.Hostnames[0], "hostname="+host.Hostnames[0]
	default:
		return otherClient{}, false
	}
	return otherClient{"the machine with ?" + claim + " in its URL", &req}, true
}
