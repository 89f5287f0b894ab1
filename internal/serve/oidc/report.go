package oidc

import (
	"cmp"
	"context"
	"time"
)

const (
	// reportInterval is how often Report looks at the issuers; one that begins has as long to answer.
	reportInterval = 10 * time.Second
	// reportPause is how long the log has no further line about a problem of the same issuer.
	reportPause = 10 * time.Minute
)

// Report logs, until ctx ends, which issuers do not answer, and which answer again.
func (i *Issuers) Report(ctx context.Context) {
	tick := time.NewTicker(reportInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			i.report(now)
		}
	}
}

func (i *Issuers) report(now time.Time) {
	for _, s := range *i.current.Load() {
		problem := s.problem()
		switch {
		case problem == nil && s.down:
			i.log.Info("an OpenID Connect issuer answers again", "issuer", s.config.Issuer.URL)
			s.down = false
		case problem != nil && now.Sub(s.began) >= reportInterval && now.Sub(s.told) >= reportPause:
			i.log.Warn("an OpenID Connect issuer gives no keys: its tokens are refused, unless they are signed with a "+
				"key that is known already", "issuer", s.config.Issuer.URL, "error", clip(problem.Error()),
				"hint", "check that this server reaches the issuer over HTTPS, and the fields url, discoveryURL and "+
					"certificateAuthority of the issuer in --authentication-config")
			s.told, s.down = now, true
		}
	}
}

// problem returns why the issuer has not answered, or does not any more.
func (s *issuer) problem() error { return cmp.Or(s.tokens.HealthCheck(), s.fetcher.problem()) }
