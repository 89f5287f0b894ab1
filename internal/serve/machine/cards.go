package machine

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/domain/identity"
	"glowplug/internal/domain/netaddr"
)

// maxCards bounds the headers of cards that are read. A request with more guesses.
const maxCards = 16

// firstCard is the header of Anaconda (inst.ks.sendmac) with the first card of the machine, in canonical form.
const cardHeader, firstCard = "X-Rhn-Provisioning-Mac-", "X-Rhn-Provisioning-Mac-0"

// cardsOf returns the hardware addresses that Anaconda names, each once and in their order, first those of Ethernet.
// A value is the name of a card and its address. other is the one in the URL, if that is none of Ethernet.
func cardsOf(h http.Header, other string) (cards []identity.Card) {
	if len(h[firstCard]) == 0 {
		return nil
	}
	var others []identity.Card
	if other != "" {
		others = append(others, identity.Card{OtherMAC: other})
	}
	for i := range maxCards {
		words := strings.Fields(h.Get(cardHeader + strconv.Itoa(i)))
		if len(words) == 0 {
			break
		}
		card, list := identity.Card{}, &cards
		var err error
		if text := words[len(words)-1]; netaddr.IsOtherMAC(text) {
			list = &others
			card.OtherMAC, err = netaddr.ParseOtherMAC(text)
		} else {
			card.MAC, err = netaddr.ParseMAC(text)
		}
		if err == nil && !slices.Contains(*list, card) {
			*list = append(*list, card)
		}
	}
	return append(cards, others...)
}

// otherMACs returns the hardware addresses that a machine claims and that are none of Ethernet.
func otherMACs(req *request) (macs []string) {
	if req.Claims.OtherMAC != "" {
		macs = append(macs, req.Claims.OtherMAC)
	}
	for _, card := range req.Cards {
		if card.OtherMAC != "" && card.OtherMAC != req.Claims.OtherMAC {
			macs = append(macs, card.OtherMAC)
		}
	}
	return macs
}
