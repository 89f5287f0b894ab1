package ignition

// Sample and Corpus are for tests from outside, which compile as the server does.
type Sample = sample

func Corpus(version string) []Sample { return corpus(specOf(version)) }
