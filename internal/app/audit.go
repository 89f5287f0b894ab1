package app

import (
	"net/http"

	"github.com/spf13/pflag"

	"glowplug/internal/audit"
	"glowplug/internal/option"
	"glowplug/internal/serve/api"
)

// addAuditFlags declares the flags of the audit, which are those of kube-apiserver.
func addAuditFlags(fs *pflag.FlagSet, o *audit.Options) {
	fs.StringVar(&o.Path, "audit-log-path", "",
		"file of the audit trail, a line of audit.k8s.io/v1 for each request of a user and each boot; - is the standard "+
			"output (default: no audit)")
	fs.StringVar(&o.PolicyFile, "audit-policy-file", "",
		"file with a Policy of audit.k8s.io/v1 (default: the metadata of everything but reads of discovery, health and "+
			"metrics)")
	fs.StringVar(&o.Mode, "audit-log-mode", audit.ModeBatch,
		"batch (a slow or full disk delays no answer, and lines may be lost), blocking (an answer waits for its line) or "+
			"blocking-strict (a request of the API fails without its line)")
	fs.IntVar(&o.MaxAge, "audit-log-maxage", 0, "days that a rotated file of the audit trail is kept; 0: no such bound")
	fs.IntVar(&o.MaxBackups, "audit-log-maxbackup", 10, "rotated files of the audit trail that are kept; 0: no such bound")
	fs.IntVar(&o.MaxSize, "audit-log-maxsize", 100, "size in MiB at which the file of the audit trail is rotated")
}

// checkAudit checks the options of the audit, and reads its policy.
func checkAudit(s *settings) (err error) {
	o := &s.Audit
	switch {
	case o.MaxAge < 0:
		return option.Bad("audit-log-maxage", "must be at least 0")
	case o.MaxBackups < 0:
		return option.Bad("audit-log-maxbackup", "must be at least 0")
	case o.MaxSize < 1:
		return option.Bad("audit-log-maxsize", "must be at least 1")
	case o.Path == "" && o.PolicyFile != "":
		return option.Bad("audit-policy-file", "needs --audit-log-path: without it there is no audit")
	case o.Path == "":
		return nil
	case o.PolicyFile == "":
		s.auditPolicy = audit.BuiltIn(o.Mode)
		return nil
	}
	if s.auditPolicy, err = audit.LoadPolicy(o.PolicyFile); err != nil {
		return option.Bad("audit-policy-file", "%v", err)
	}
	return nil
}

// auditFile returns the file of the audit trail; "": there is none.
func auditFile(s *settings) string {
	if s.Audit.Path == audit.Stdout {
		return ""
	}
	return s.Audit.Path
}

// openAudit opens the audit trail, if there is one.
func openAudit(a builder) (err error) {
	policy := a.settings.auditPolicy
	if policy == nil {
		return nil
	}
	for _, excess := range policy.Excess {
		a.log.Warn("a rule of the audit policy is not followed: "+excess, "flag", "--audit-policy-file")
	}
	if a.trail, err = audit.Open(&a.settings.Audit, policy, a.stdout); err != nil {
		return option.Bad("audit-log-path", "%v", err)
	}
	a.onShutdown("closing the audit trail", a.trail.Close)
	return nil
}

// auditOfAPI returns the audit of the API; nil: there is none.
func auditOfAPI(a *App) api.Audit {
	if a.trail == nil {
		return nil
	}
	return a.trail
}

// auditOfBoots returns the audit of answers to machines; nil: there is none.
func auditOfBoots(a *App) func(*http.Request, audit.Answer, bool) {
	if a.trail == nil {
		return nil
	}
	return func(r *http.Request, answer audit.Answer, believed bool) {
		if believed {
			answer.User = a.api.User(r)
		}
		a.trail.Answered(answer)
	}
}

// auditOfLogins returns the audit of iSCSI logins; nil: there is none.
func auditOfLogins(a *App) func(audit.Answer) {
	if a.trail == nil {
		return nil
	}
	return a.trail.Answered
}
