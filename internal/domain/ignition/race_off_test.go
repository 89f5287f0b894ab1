//go:build !race

package ignition

const raceDetector = false
