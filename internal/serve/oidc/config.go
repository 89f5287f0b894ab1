package oidc

import (
	"bufio"
	"bytes"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/apis/apiserver"
	configv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	configv1beta1 "k8s.io/apiserver/pkg/apis/apiserver/v1beta1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/cel"
)

// maxSize is what the file may have at most, in bytes.
const maxSize = 1 << 20

// wanted is the beginning of a file that can be used.
const wanted = "want apiVersion: apiserver.config.k8s.io/v1 and kind: AuthenticationConfiguration"

// codecs read the file: an unknown or repeated field is an error with its path.
var codecs = serializer.NewCodecFactory(newScheme(), serializer.EnableStrict)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(apiserver.AddToScheme(s))
	utilruntime.Must(configv1beta1.AddToScheme(s))
	utilruntime.Must(configv1.AddToScheme(s))
	return s
}

// parse returns the authenticators of a file. Its error names the field that is wrong.
func parse(content []byte, compiler cel.Compiler) ([]apiserver.JWTAuthenticator, error) {
	if len(content) > maxSize {
		return nil, fmt.Errorf("the file has %d bytes, the limit is %d", len(content), maxSize)
	}
	document, err := single(content)
	if err != nil {
		return nil, err
	}
	object, err := runtime.Decode(codecs.UniversalDecoder(), document)
	switch {
	case runtime.IsMissingKind(err), runtime.IsMissingVersion(err), runtime.IsNotRegisteredError(err):
		return nil, fmt.Errorf("apiVersion or kind cannot be used: %s", wanted)
	case err != nil:
		return nil, err
	}
	config, ok := object.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("kind cannot be used: %s", wanted)
	}
	found := validation.ValidateAuthenticationConfiguration(compiler, config, nil)
	return config.JWT, append(found, unsupported(config)...).ToAggregate()
}

// single returns the only YAML document of a file: the decoder would ignore those behind the first.
func single(content []byte) ([]byte, error) {
	var document []byte
	reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		next, err := reader.Read()
		switch {
		case err == io.EOF && document == nil:
			return nil, fmt.Errorf("the file is empty: %s", wanted)
		case err == io.EOF:
			return document, nil
		case err != nil:
			return nil, err
		case isEmpty(next):
		case document != nil:
			return nil, fmt.Errorf("the file has more than one YAML document: put all issuers into the list jwt of one")
		default:
			document = next
		}
	}
}

// isEmpty reports whether a document has nothing but comments.
func isEmpty(document []byte) bool {
	value, err := yaml.ToJSON(document)
	return err == nil && string(value) == "null"
}

// unsupported returns the fields that Kubernetes knows and glowplug does not have.
func unsupported(config *apiserver.AuthenticationConfiguration) (found field.ErrorList) {
	if config.Anonymous != nil {
		found = append(found, field.Forbidden(field.NewPath("anonymous"),
			"glowplug has no anonymous access to its API: remove this field"))
	}
	for i, authenticator := range config.JWT {
		if authenticator.Issuer.EgressSelectorType != "" {
			found = append(found, field.Forbidden(field.NewPath("jwt").Index(i).Child("issuer", "egressSelectorType"),
				"glowplug connects to issuers directly: remove this field"))
		}
	}
	return found
}
