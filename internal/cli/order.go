package cli

// lowestFirst orders objects so that each layer goes before the configs that are merged
// over it, which do not compile without it, and each image before the hosts that boot it. All others
// keep their order.
func lowestFirst(docs []*prepared) []*prepared {
	known := map[string]*prepared{}
	for _, p := range docs {
		known[p.doc.Kind+" "+p.doc.Namespace+"/"+p.doc.Name] = p
	}
	ordered := make([]*prepared, 0, len(docs))
	seen := map[*prepared]bool{}
	var add func(p *prepared)
	add = func(p *prepared) {
		if seen[p] {
			return
		}
		seen[p] = true
		for _, name := range p.layers {
			if lower := known["IgnitionConfig "+p.doc.Namespace+"/"+name]; lower != nil {
				p.below = append(p.below, lower)
				add(lower)
			}
		}
		if image := known["ISCSICdrom "+p.image]; image != nil {
			p.bootsOther = true
			add(image)
		}
		ordered = append(ordered, p)
	}
	for _, p := range docs {
		add(p)
	}
	return ordered
}
