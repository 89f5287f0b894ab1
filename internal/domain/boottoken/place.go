package boottoken

import "strings"

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

// Hide returns a path without the token of the image in it.
func Hide(path string) string {
	i := strings.Index(path, inPath)
	end := i + len(inPath) + Length
	if i < 0 || end > len(path) || !IsToken(path[i+len(inPath):end]) {
		return path
	}
	return path[:i] + path[end:]
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

func cut(s, separator string) (name, token string) {
	if i := strings.LastIndex(s, separator); i >= 0 && IsToken(s[i+len(separator):]) {
		return s[:i], s[i+len(separator):]
	}
	return s, ""
}

// The paths for machines that need the token.
var configPaths = []string{"/api/v1/ignition", "/api/v1/kickstart"}

const imagePath = "/iso/"

// Add returns kernel arguments whose URLs of configs and images have a token. The arguments are not
// changed.
func Add(args []string, token string) []string {
	added := make([]string, len(args))
	for i, arg := range args {
		for _, path := range configPaths {
			arg = addToConfig(arg, path, token)
		}
		added[i] = addToImage(arg, token)
	}
	return added
}

// addToConfig adds a token as the first parameter of the URLs with a path.
func addToConfig(arg, path, token string) string {
	before, after, found := strings.Cut(arg, path)
	switch {
	case !found || after != "" && strings.ContainsRune("/-_.~", rune(after[0])) || isAlphanumeric(after):
		return arg // none, or a longer path
	case strings.HasPrefix(after, "?"):
		return before + path + InQuery("", token) + "&" + after[1:]
	}
	return before + path + InQuery("", token) + after
}

func isAlphanumeric(s string) bool {
	return s != "" && (s[0] >= 'a' && s[0] <= 'z' || s[0] >= 'A' && s[0] <= 'Z' || s[0] >= '0' && s[0] <= '9')
}

// addToImage adds a token to the name of the image in a URL.
func addToImage(arg, token string) string {
	before, path, found := strings.Cut(arg, imagePath)
	namespace, rest, isImage := strings.Cut(path, "/")
	if isURL := strings.Contains(before, "://") || strings.HasSuffix(before, "${glowplug}"); !found || !isImage || !isURL {
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
	return before + imagePath + namespace + "/" + InPath(name, token) + extension + rest[end:]
}
