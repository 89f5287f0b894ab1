package impact

// Report is the impact of a change set.
type Report struct {
	// Objects are those of the change set.
	Objects []Object `json:"objects"`
	*Impact
	// Disks compares the plans of the hosts that receive other bytes; nil: the disks of none of
	// them are known.
	Disks *Disks `json:"disks,omitempty"`
}

// Object is an object of a change set.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Change is created, configured, unchanged or deleted.
	Change string `json:"change"`
}

// Disks says which data Ignition would destroy because of the changes, and on which hosts.
type Disks struct {
	// Known is the number of hosts that receive other bytes and whose disks are known, and Planned
	// the number of those whose plans were compared.
	Known   int    `json:"known"`
	Planned int    `json:"planned"`
	Hosts   []Loss `json:"hosts,omitempty"`
}

// Loss is what would be lost on the disks of a host.
type Loss struct {
	Host  string   `json:"host"`
	Loses []string `json:"loses"`
}

// IsWorse reports whether something changes for the worse.
func (r *Report) IsWorse() bool {
	if r.Disks != nil && len(r.Disks.Hosts) > 0 {
		return true
	}
	if r.OnStrangers().IsWorse() {
		return true
	}
	for effect, hosts := range r.Counts {
		if hosts > 0 && effect.IsWorse() {
			return true
		}
	}
	return false
}

// OnStrangers returns what changes for machines that are no known hosts; "": nothing.
func (i *Impact) OnStrangers() Effect {
	if i.Strangers == nil {
		return ""
	}
	return i.Strangers.effect()
}

// effect returns what changes for a machine that is no known host, the worst of all types.
func (p *Pair) effect() Effect {
	worst := Mended
	for i := range p.After.Configs {
		was, is := &p.Before.Configs[i], &p.After.Configs[i]
		effect := Mended
		switch {
		case is.Config == "":
			effect = Unmatched
		case is.Status == 0:
			effect = Unknown
		case is.Status != ok && was.Status == ok:
			effect = Unserved
		case was.Status != ok:
		case is.Config != was.Config:
			effect = ConfigChanged
		default:
			effect = ContentChanged
		}
		if rank(effect) < rank(worst) {
			worst = effect
		}
	}
	return worst
}
