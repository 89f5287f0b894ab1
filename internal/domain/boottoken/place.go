package boottoken

import (
	"cmp"
	"strings"
)

// Parameter is the parameter of a query that has the token.
const Parameter = "token"

// The places of a token in the path of an image, after its name and version, and in the name of a target.
const (
	inPath   = "~"
	inTarget = ":token:"
)

// TargetRoom is the number of bytes by which InTarget makes a name longer.
const TargetRoom = len(inTarget) + Length

// InQuery returns a query, which is "" or begins with a question mark, with a token. Without a token it
// returns the query as it is.
func InQuery(query, token string) string {
	switch {
	case token == "":
		return query
	case query == "":
		return "?" + Parameter + "=" + token
	}
	return query + "&" + Parameter + "=" + token
}

// InPath returns the name of an image in a path, with a token.
func InPath(name, token string) string { return with(name, inPath, token) }

// CutPath is the inverse of InPath.
func CutPath(segment string) (name, token string) { return cut(segment, inPath) }

// Hide returns a path without the tokens in it.
func Hide(path string) string {
	if !strings.Contains(path, inPath) {
		return path
	}
	parts := strings.Split(path, inPath)
	hidden := parts[0]
	for _, part := range parts[1:] {
		if len(part) >= Length && IsToken(part[:Length]) {
			hidden += part[Length:]
		} else {
			hidden += inPath + part
		}
	}
	return hidden
}

// InTarget returns the name of an iSCSI target with a token.
func InTarget(iqn, token string) string { return with(iqn, inTarget, token) }

// CutTarget is the inverse of InTarget. Names of targets have no case.
func CutTarget(name string) (iqn, token string) {
	if iqn, token = cut(strings.ToLower(name), inTarget); token == "" {
		return name, ""
	}
	return iqn, token
}

func with(name, separator, token string) string {
	if token == "" {
		return name
	}
	return name + separator + token
}

// cut cuts all tokens off, and returns the last one: none of them becomes a part of a name in a log.
func cut(s, separator string) (name, token string) {
	for {
		i := strings.LastIndex(s, separator)
		if i < 0 || !IsToken(s[i+len(separator):]) {
			return s, token
		}
		s, token = s[:i], cmp.Or(token, s[i+len(separator):])
	}
}

// The paths for machines that need the token.
var configPaths = []string{"/api/v1/ignition", "/api/v1/kickstart"}

const imagePath = "/iso/"

// Variable stands for the URL of this server in kernel arguments.
const Variable = "${glowplug}"

// Add returns kernel arguments whose URLs of configs and images have a token. These are URLs of this
// server, which begin with Variable or base: no other server receives a token. The arguments are not
// changed.
func Add(args []string, base, token string) []string {
	added := make([]string, len(args))
	for i, arg := range args {
		for _, server := range []string{Variable, strings.TrimSuffix(base, "/")} {
			if server == "" {
				continue
			}
			for _, path := range configPaths {
				arg = addToConfig(arg, server+path, token)
			}
			arg = addToImage(arg, server+imagePath, token)
		}
		added[i] = arg
	}
	return added
}

// addToConfig adds a token as the first parameter of a URL of configs.
func addToConfig(arg, url, token string) string {
	before, after, found := cutURL(arg, url)
	switch {
	case !found || after != "" && strings.ContainsRune("/-_.~", rune(after[0])) || isAlphanumeric(after):
		return arg // none, or a longer path
	case strings.HasPrefix(after, "?"):
		return before + url + InQuery("", token) + "&" + after[1:]
	}
	return before + url + InQuery("", token) + after
}

// cutURL cuts an argument around a URL. It does not find one inside another URL, perhaps of another server, which
// would receive a token in it.
func cutURL(arg, url string) (before, after string, found bool) {
	before, after, found = strings.Cut(arg, url)
	return before, after, found && !strings.ContainsAny(before, "/?#")
}

func isAlphanumeric(s string) bool {
	return s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z' || s[0] >= '0' && s[0] <= '9')
}

// addToImage adds a token to the name of the image in a URL, which begins with url.
func addToImage(arg, url, token string) string {
	before, path, found := cutURL(arg, url)
	namespace, rest, isImage := strings.Cut(path, "/")
	if !found || !isImage {
		return arg
	}
	end := strings.IndexAny(rest, "/?#\" ")
	if end < 0 {
		end = len(rest)
	}
	name, extension := rest[:end], ""
	if cut, ok := strings.CutSuffix(name, ".iso"); ok {
		name, extension = cut, ".iso"
	}
	if _, has := CutPath(name); has != "" {
		return arg
	}
	return before + url + namespace + "/" + InPath(name, token) + extension + rest[end:]
}
