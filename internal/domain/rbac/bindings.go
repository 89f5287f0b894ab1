package rbac

import (
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Binding gives a role to subjects. It is a RoleBinding or a ClusterRoleBinding.
type Binding struct {
	RoleRef  rbacv1.RoleRef
	Subjects []rbacv1.Subject
}

// bindings are those of one namespace, or those of all namespaces.
type bindings struct {
	byName map[string]Binding
	// bySubject has the names of the bindings of each subject, so that a user among thousands of others
	// is authorized as fast as one alone.
	bySubject map[subject]map[string]bool
}

// subject is a user or a group. A ServiceAccount is the user with its name.
type subject struct {
	isGroup bool
	name    string
}

// subjectOf returns the subject that a binding in a namespace names. A ServiceAccount without a namespace is in
// that of the binding.
func subjectOf(s rbacv1.Subject, namespace string) (subject, bool) {
	switch s.Kind {
	case rbacv1.UserKind:
		return subject{name: s.Name}, true
	case rbacv1.GroupKind:
		return subject{isGroup: true, name: s.Name}, true
	case rbacv1.ServiceAccountKind:
		if s.Namespace != "" {
			namespace = s.Namespace
		}
		return subject{name: serviceaccount.MakeUsername(namespace, s.Name)}, namespace != ""
	}
	return subject{}, false
}

// Bind puts a binding in place of the former one of its key. A ClusterRoleBinding has no namespace.
func (p *Policy) Bind(at Key, b Binding) {
	p.Unbind(at)
	in := p.bindings[at.Namespace]
	if in == nil {
		in = &bindings{map[string]Binding{}, map[subject]map[string]bool{}}
		if p.bindings == nil {
			p.bindings = map[string]*bindings{}
		}
		p.bindings[at.Namespace] = in
	}
	in.byName[at.Name] = b
	for _, s := range b.Subjects {
		if of, ok := subjectOf(s, at.Namespace); ok {
			if in.bySubject[of] == nil {
				in.bySubject[of] = map[string]bool{}
			}
			in.bySubject[of][at.Name] = true
		}
	}
}

// Unbind removes a binding.
func (p *Policy) Unbind(at Key) {
	in := p.bindings[at.Namespace]
	if in == nil {
		return
	}
	for _, s := range in.byName[at.Name].Subjects {
		of, _ := subjectOf(s, at.Namespace)
		if delete(in.bySubject[of], at.Name); len(in.bySubject[of]) == 0 {
			delete(in.bySubject, of)
		}
	}
	if delete(in.byName, at.Name); len(in.byName) == 0 {
		delete(p.bindings, at.Namespace)
	}
}

// UnbindRoles removes all RoleBindings.
func (p *Policy) UnbindRoles() {
	for namespace := range p.bindings {
		if namespace != "" {
			delete(p.bindings, namespace)
		}
	}
}

// UnbindClusterRoles removes all ClusterRoleBindings.
func (p *Policy) UnbindClusterRoles() { delete(p.bindings, "") }

// grant is a binding that has the user among its subjects.
type grant struct {
	name      string
	namespace string // of a RoleBinding; "" for a ClusterRoleBinding
	ref       rbacv1.RoleRef
	subject   rbacv1.Subject
}

func (g grant) String() string {
	subject := g.subject.Name
	if g.subject.Namespace != "" {
		subject += "/" + g.subject.Namespace
	}
	binding := fmt.Sprintf("ClusterRoleBinding %q", g.name)
	if g.namespace != "" {
		binding = fmt.Sprintf("RoleBinding %q", g.name+"/"+g.namespace)
	}
	return fmt.Sprintf("%s of %s %q to %s %q", binding, g.ref.Kind, g.ref.Name, g.subject.Kind, subject)
}

// grants calls yield for each binding of a user: those of all namespaces and, if there is a
// namespace, those in it.
func (p *Policy) grants(who user.Info, namespace string) func(yield func(grant) bool) {
	subjects := []subject{{name: who.GetName()}}
	for _, group := range who.GetGroups() {
		if of := (subject{isGroup: true, name: group}); !slices.Contains(subjects, of) {
			subjects = append(subjects, of)
		}
	}
	return func(yield func(grant) bool) {
		if !p.grantsIn("", subjects, yield) || namespace == "" {
			return
		}
		p.grantsIn(namespace, subjects, yield)
	}
}

// grantsIn calls yield for the bindings of a namespace that name any of the subjects, once for each, and
// reports whether there may be more.
func (p *Policy) grantsIn(namespace string, subjects []subject, yield func(grant) bool) bool {
	in := p.bindings[namespace]
	if in == nil {
		return true
	}
	for _, of := range subjects {
		for name := range in.bySubject[of] {
			b := in.byName[name]
			first := slices.IndexFunc(b.Subjects, func(s rbacv1.Subject) bool {
				named, ok := subjectOf(s, namespace)
				return ok && slices.Contains(subjects, named)
			})
			if named, _ := subjectOf(b.Subjects[first], namespace); named != of {
				continue // another subject of the user has it
			}
			if !yield(grant{name, namespace, b.RoleRef, b.Subjects[first]}) {
				return false
			}
		}
	}
	return true
}
