package ignition

// within2 converts between two versions of spec 2. Most of it is nothing: what a
// version does not have yet is refused at the end.
func (c *conversion) within2(root object, from, to *spec) {
	switch {
	case from.before(first23) && !to.before(first23):
		eachPartition(root, func(p object) {
			// A partition that matches was no partition to keep before 2.3.0: an
			// attribute that is left out is asked for as 0 or "".
			fill(p, "size", number(0))
			fill(p, "start", number(0))
			fill(p, "label", "")
		})
	case to.before(first23) && !from.before(first23):
		eachPartition(root, func(p object) {
			c.refuseKept(p, "size", "sizeMiB")
			c.refuseKept(p, "start", "startMiB")
			c.refuseKept(p, "label", "label")
		})
	}
	if to.before(first22) && !from.before(first22) {
		for _, file := range objects(sub(root, "storage"), "files") {
			// The versions before always overwrite.
			if overwrite, ok := file["overwrite"].(bool); ok && !overwrite {
				c.lose(pathOf(file, "overwrite"), "without it writing a file fails where one is there; spec %s always overwrites",
					to.name)
			}
			delete(file, "overwrite")
		}
	}
	switch {
	case from.before(first21) && !to.before(first21):
		c.from20(root)
	case to.before(first21) && !from.before(first21):
		c.to20(root)
	}
}

func eachPartition(root object, do func(object)) {
	for _, disk := range objects(sub(root, "storage"), "disks") {
		for _, p := range objects(disk, "partitions") {
			do(p)
		}
	}
}

func fill(o object, key string, value any) {
	if _, ok := o[key]; !ok {
		o[key] = value
	}
}

// refuseKept refuses a partition that leaves an attribute out, so that an existing
// partition keeps its own.
func (c *conversion) refuseKept(p object, key, other string) {
	_, has := p[key]
	_, hasOther := p[other]
	if !has && !hasOther {
		c.lose(pathOf(p, key), "it is left out, which leaves an existing partition's as it is; spec %s sets it to nothing",
			c.to.name)
	}
}

// from20 writes a config of 2.0.0 as 2.1.0.
func (c *conversion) from20(root object) {
	for _, unit := range objects(sub(root, "systemd"), "units") {
		if isTrue(unit, "enable") {
			unit["enabled"] = true
		}
		delete(unit, "enable")
	}
	for _, user := range objects(sub(root, "passwd"), "users") {
		if hash, ok := user["passwordHash"]; ok && hash == "" {
			delete(user, "passwordHash") // was the same as none
		}
	}
}

// to20 writes a config of 2.1.0 as 2.0.0, and refuses what 2.0.0 does differently.
func (c *conversion) to20(root object) {
	for _, unit := range objects(sub(root, "systemd"), "units") {
		enabled, ok := unit["enabled"].(bool)
		switch {
		case ok && enabled:
			unit["enable"] = true
			delete(unit, "enabled")
		case ok:
			c.lose(pathOf(unit, "enabled"), "spec 2.0.0 cannot disable a unit")
		}
	}
	for _, fs := range objects(sub(root, "storage"), "filesystems") {
		if mount := sub(fs, "mount"); mount != nil && mount["create"] == nil {
			c.lose(text(mount, origin), "spec 2.0.0 makes no filesystem without mount.create, which no later version needs")
		}
	}
	for _, user := range objects(sub(root, "passwd"), "users") {
		name := text(user, "name")
		if user["create"] == nil && name != "core" && name != "root" {
			c.lose(text(user, origin), "spec 2.0.0 makes no user without create, which no later version needs")
		}
		if hash, ok := user["passwordHash"]; ok && hash == "" {
			c.lose(pathOf(user, "passwordHash"), "an empty hash forbids passwords; in spec 2.0.0 it is the same as none")
		}
	}
}
