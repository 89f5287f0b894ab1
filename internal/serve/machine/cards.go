package machine

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"glowplug/internal/domain/netaddr"
)

// maxCards bounds the headers of cards that are read. A request with more guesses.
const maxCards = 16

// firstCard is the header of Anaconda (inst.ks.sendmac) with the first card of the machine, in canonical form.
const cardHeader, firstCard = "X-Rhn-Provisioning-Mac-", "X-Rhn-Provisioning-Mac-0"

// cardsOf returns the hardware addresses that Anaconda names, each once and in their order. A value is the name
// of a card and its address; what is no Ethernet address is left out.
func cardsOf(h http.Header) (cards []netaddr.MAC) {
	if len(h[firstCard]) == 0 {
		return nil
	}
	for i := range maxCards {
		words := strings.Fields(h.Get(cardHeader + strconv.Itoa(i)))
		if len(words) == 0 {
			break
		}
		mac, err := netaddr.ParseMAC(words[len(words)-1])
		if err == nil && !slices.Contains(cards, mac) {
			cards = append(cards, mac)
		}
	}
	return cards
}
