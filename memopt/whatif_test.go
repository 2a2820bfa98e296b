package memopt

import "testing"

// BenchmarkBloom asks for the frontier of three layers of Bloom and for their
// largest batch, as commands do: in every form of the step.
func BenchmarkBloom(b *testing.B) {
	const file, batch = "onnxruntime/3layer_bloom_optimized_training", "inputs_input_ids_dim0"
	dims := map[string]int64{batch: 2, "inputs_attention_mask_dim1": 1024}
	b.Run("frontier", func(b *testing.B) {
		m := openTraining(b, file, dims)
		points := 0
		for b.Loop() {
			c, err := m.Frontier()
			if err != nil {
				b.Fatal(err)
			}
			points = len(c.Points)
		}
		b.ReportMetric(float64(points), "points")
	})
	for _, limit := range []string{"", "10%"} {
		b.Run("largest"+limit, func(b *testing.B) {
			settings := []string{"budget=8GiB"}
			if limit != "" {
				settings = append(settings, "max_overhead="+limit)
			}
			m := openTraining(b, file, dims, settings...)
			largest := int64(0)
			for b.Loop() {
				p, err := m.Largest(batch)
				if err != nil {
					b.Fatal(err)
				}
				largest = p.Request.Dims[batch]
			}
			b.ReportMetric(float64(largest), "batch")
		})
	}
}
