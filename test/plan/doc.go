// Package plan holds the plans of glowplug against the real Ignition: random pairs of disks and
// configs go through its disks and mount stages on loop devices.
package plan
