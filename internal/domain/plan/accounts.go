package plan

import (
	"fmt"
	"slices"
	"strings"

	"glowplug/internal/domain/ignition"
)

// ofImages are users that are in the images of CoreOS and Flatcar.
var ofImages = map[string]bool{"root": true, "core": true}

// users plans the users, as EnsureUser of Ignition's internal/exec/util/passwd.go makes them.
func users(list []ignition.User, failed bool) []*step {
	var steps []*step
	for i, user := range list {
		s := &step{Step: Step{
			Action: Create, Kind: "user", Name: user.Name, Field: fmt.Sprintf("passwd.users.%d", i), Detail: describeUser(user),
			Rule: "Ignition runs useradd, or usermod where the image has the user",
		}}
		switch {
		case user.ShouldExist != nil && !*user.ShouldExist:
			s.Action, s.Field = Delete, s.Field+".shouldExist"
			s.Rule = "shouldExist is false: Ignition deletes the user and its home directory, where the image has it"
		case ofImages[user.Name]:
			s.Action, s.Rule = Change, "the images of CoreOS and Flatcar have the user: Ignition runs usermod"
		}
		s.NotReached = failed
		steps = append(steps, s)
	}
	return steps
}

// describeUser says how a user can log in. It never has the password or its hash.
func describeUser(user ignition.User) string {
	var parts []string
	switch hash := user.PasswordHash; {
	case hash == nil:
	case *hash == "" || strings.HasPrefix(*hash, "*") || strings.HasPrefix(*hash, "!"):
		parts = append(parts, "login by password is disabled")
	default:
		parts = append(parts, "the password is set")
	}
	switch n := len(user.SSHAuthorizedKeys); {
	case n == 1:
		parts = append(parts, "1 SSH key in place of those that an earlier Ignition wrote")
	case n > 1:
		parts = append(parts, fmt.Sprintf("%d SSH keys in place of those that an earlier Ignition wrote", n))
	}
	if len(user.Groups) > 0 {
		groups := make([]string, len(user.Groups))
		for i, g := range user.Groups {
			groups[i] = string(g)
		}
		parts = append(parts, "groups "+strings.Join(groups, ", "))
	}
	if home := value(user.HomeDir); home != "" {
		parts = append(parts, "home "+home)
	}
	if shell := value(user.Shell); shell != "" {
		parts = append(parts, "shell "+shell)
	}
	return strings.Join(parts, ", ")
}

// canLogIn reports whether a user has a password or a key.
func canLogIn(user ignition.User) bool {
	hash := value(user.PasswordHash)
	shell := value(user.Shell)
	return (user.ShouldExist == nil || *user.ShouldExist) &&
		!strings.HasSuffix(shell, "/nologin") && !strings.HasSuffix(shell, "/false") &&
		(len(user.SSHAuthorizedKeys) > 0 || hash != "" && hash[0] != '*' && hash[0] != '!')
}

// groups plans the groups, as EnsureGroup makes them.
func groups(config *ignition.Config, failed bool) []*step {
	var steps []*step
	for i, group := range config.Passwd.Groups {
		s := &step{Step: Step{
			Action: Create, Kind: "group", Name: group.Name, Field: fmt.Sprintf("passwd.groups.%d", i),
			Rule: "Ignition runs groupadd, or groupmod where the image has the group", NotReached: failed,
		}}
		if group.ShouldExist != nil && !*group.ShouldExist {
			s.Action, s.Field = Delete, s.Field+".shouldExist"
			s.Rule = "shouldExist is false: Ignition deletes the group, where the image has it"
		}
		steps = append(steps, s)
	}
	return steps
}

// warnings are about the whole config.
func warnings(config *ignition.Config) []string {
	others := &config.Ignition.Config
	if slices.ContainsFunc(config.Passwd.Users, canLogIn) || len(others.Merge) > 0 || value(others.Replace.Source) != "" {
		return nil
	}
	return []string{"no user of the config can log in: none has an SSH key or a password"}
}
