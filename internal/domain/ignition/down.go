package ignition

// down turns a config of spec 3.6.0 into one of 2.4.0, from which fields are refused
// that an older version of spec 2 does not have. What spec 2 has no place for stays
// where it is, and is refused at the end.
func (c *conversion) down(root object) {
	ignition := sub(root, "ignition")
	config := sub(ignition, "config")
	c.proxy(ignition, len(objects(config, "merge")) > 0)
	if list, ok := config["merge"]; ok {
		config["append"] = list
		delete(config, "merge")
	}
	for _, unit := range objects(sub(root, "systemd"), "units") {
		c.unitDown(unit)
	}
	if storage := sub(root, "storage"); storage != nil {
		c.nodesDown(storage, c.filesystemsDown(storage))
	}
	c.bareHeaders(root)
}

func (c *conversion) unitDown(unit object) {
	if mask, ok := unit["mask"].(bool); ok && !mask {
		c.lose(at(unit, "mask"), "spec 2 cannot unmask a unit")
	}
	for _, dropin := range objects(unit, "dropins") {
		if dropin["contents"] == "" {
			c.lose(at(dropin, "contents"), "spec 2 does not write an empty drop-in")
		}
	}
}

// bareHeaders refuses the headers without a value: in spec 3 they take away one of
// a config that this one is merged into, in spec 2 they have an empty value.
func (c *conversion) bareHeaders(value any) {
	switch value := value.(type) {
	case object:
		for _, header := range objects(value, "httpHeaders") {
			if _, ok := header["value"]; !ok {
				c.lose(text(header, origin), "without a value it removes a header in spec 3, and not in spec 2")
			}
		}
		for _, key := range sortedKeys(value) {
			c.bareHeaders(value[key])
		}
	case []any:
		for _, item := range value {
			c.bareHeaders(item)
		}
	}
}
