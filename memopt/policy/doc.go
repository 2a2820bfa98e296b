// Package policy reads and writes the checkpoint policies of other trainers: what their settings say of which results of
// the forward pass are dropped and made again.
//
// A file is read as settings (settings.go), the format whose keys it has makes a Policy of them (formats.go, and one file a
// trainer), and a Policy applied to the forward nodes of a step gives regions that planner.Checkpointed simulates (apply.go).
// The other way, Write takes the cheapest settings of a trainer under which a step stays within a plan's peak (write.go).
package policy
