package ignition

// downConversion converts a config of spec 3.6.0 to 2.4.0. Fields that the wanted version
// of spec 2 does not have are refused afterwards: they stay where they are until then.
type downConversion struct{ *conversion }

func (c *downConversion) convert(root object) {
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

func (c *downConversion) unitDown(unit object) {
	if mask, ok := unit["mask"].(bool); ok && !mask {
		c.lose(pathOf(unit, "mask"), "spec 2 cannot unmask a unit")
	}
	for _, dropin := range objects(unit, "dropins") {
		if dropin["contents"] == "" {
			c.lose(pathOf(dropin, "contents"), "spec 2 does not write an empty drop-in")
		}
	}
}
