package match

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Expression is a requirement of matchExpressions. It has the meaning that it has in
// Kubernetes: NotIn and DoesNotExist hold for a machine without the label.
type Expression struct {
	Key      string
	Operator metav1.LabelSelectorOperator
	// Values are sorted, each once.
	Values []string
}

func parseExpressions(requirements []metav1.LabelSelectorRequirement) ([]Expression, error) {
	var out []Expression
	for i, r := range requirements {
		values := slices.Compact(slices.Sorted(slices.Values(r.Values)))
		takesValues := r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn
		switch {
		case !takesValues && r.Operator != metav1.LabelSelectorOpExists && r.Operator != metav1.LabelSelectorOpDoesNotExist:
			return nil, fmt.Errorf("selector.matchExpressions[%d].operator: %q is not In, NotIn, Exists or DoesNotExist",
				i, r.Operator)
		case takesValues != (len(values) > 0):
			return nil, fmt.Errorf("selector.matchExpressions[%d].values: In and NotIn need values, "+
				"Exists and DoesNotExist have none", i)
		}
		out = append(out, Expression{r.Key, r.Operator, values})
	}
	return out, nil
}

// needsLabel reports whether a machine must have the label.
func (e *Expression) needsLabel() bool {
	return e.Operator == metav1.LabelSelectorOpIn || e.Operator == metav1.LabelSelectorOpExists
}

// holds reports whether the requirement holds for a machine.
func (e *Expression) holds(f *Facts) bool {
	value, has := f.Label(e.Key)
	switch e.Operator {
	case metav1.LabelSelectorOpIn:
		return has && slices.Contains(e.Values, value)
	case metav1.LabelSelectorOpNotIn:
		return !has || !slices.Contains(e.Values, value)
	case metav1.LabelSelectorOpExists:
		return has
	}
	return !has
}

// String returns the requirement as kubectl writes it.
func (e *Expression) String() string {
	switch e.Operator {
	case metav1.LabelSelectorOpIn:
		return e.Key + " in (" + strings.Join(e.Values, ",") + ")"
	case metav1.LabelSelectorOpNotIn:
		return e.Key + " notin (" + strings.Join(e.Values, ",") + ")"
	case metav1.LabelSelectorOpExists:
		return e.Key
	}
	return "!" + e.Key
}

// hasLabels reports whether the labels and expressions of a selector hold for the machine,
// and it has some. A selector that needs no label is for hosts: it does not match a machine
// of which nothing is known.
func (q *Query) hasLabels(sel *Selector) bool {
	needs := len(sel.Labels) > 0
	for _, l := range sel.Labels {
		if v, ok := q.Label(l.Key); !ok || v != l.Value {
			return false
		}
	}
	for i := range sel.Expressions {
		e := &sel.Expressions[i]
		if !e.holds(&q.Facts) {
			return false
		}
		needs = needs || e.needsLabel()
	}
	return needs || sel.requirements() > 0 && q.Namespace != ""
}

// anchors returns the labels under which an index lists a rule: every machine that the rule's
// labels and expressions select has exactly one of them, or, for an anchor without a value,
// has a label with that key. The anchor of a rule that needs no label is empty.
func (x *Index) anchors(r *Rule) []anchor {
	sel := &r.Selector
	if len(sel.Labels) > 0 {
		return []anchor{{Label: x.rarestLabel(r)}}
	}
	var best *Expression
	for i := range sel.Expressions {
		e := &sel.Expressions[i]
		switch {
		case !e.needsLabel():
		case best == nil, len(best.Values) == 0,
			len(e.Values) > 0 && len(e.Values) < len(best.Values):
			best = e
		}
	}
	switch {
	case sel.requirements() == 0:
		return nil
	case best == nil:
		return []anchor{{hasAnyValue: true}}
	case len(best.Values) == 0:
		return []anchor{{Label{Key: best.Key}, true}}
	}
	var out []anchor
	for _, value := range best.Values {
		out = append(out, anchor{Label: Label{best.Key, value}})
	}
	return out
}

// anchor is a label, or a key with any value.
type anchor struct {
	Label
	hasAnyValue bool
}
