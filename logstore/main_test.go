package logstore

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain also serves as the writer process that TestKillWriter kills.
func TestMain(m *testing.M) {
	if dir := os.Getenv("LOGSTORE_TEST_WRITER"); dir != "" {
		writerProcess(dir)
		return
	}
	goleak.VerifyTestMain(m)
}
