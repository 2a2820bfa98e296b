package memopt

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"memopt/kernels/vulkan"
	"memopt/kernels/vulkan/vk"
	"memopt/planner"
)

const threadsVariable = "MEMOPT_TEST_THREADS"

// TestVulkanHash is the child of the test below: it prints a hash of a step's
// gradients.
func TestVulkanHash(t *testing.T) {
	if os.Getenv(threadsVariable) == "" {
		t.Skip("it is started by TestVulkanThreads")
	}
	device := vulkanDevice(t)
	hash := sha256.New()
	for _, model := range []string{"resnet8", "bert-2L"} {
		m, data := referenceModel(t, model)
		for _, x := range outputs(t, device, m, planner.Request{Again: randomNodes(m.Graph, 3)}, data) {
			hash.Write(x)
		}
	}
	fmt.Printf("\nhash %x\n", hash.Sum(nil))
}

// TestVulkanThreads: a driver for the processor gives the same bits on one thread
// and on two.
func TestVulkanThreads(t *testing.T) {
	vulkanDevice(t)
	if p, err := vulkan.Choose(os.Getenv("MEMOPT_TEST_VULKAN")); err != nil || p.Kind != vk.CPU {
		t.Skip("the device has its own threads")
	}
	var hashes []string
	for _, threads := range []string{"1", "2"} {
		c := exec.Command(os.Args[0], "-test.run", "^TestVulkanHash$")
		c.Env = append(os.Environ(), threadsVariable+"=1", "LP_NUM_THREADS="+threads)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		hashes = append(hashes, regexp.MustCompile("hash [0-9a-f]{64}").FindString(string(out)))
	}
	if hashes[0] == "" || hashes[0] != hashes[1] {
		t.Errorf("one thread and two give %q", hashes)
	}
}
