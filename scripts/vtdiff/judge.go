package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// comparison is what compare.py --json prints.
type comparison struct {
	Total  struct{ OK, Bad, Unjudged int }
	Facets map[string]struct{ OK, Diff int }
	Diffs  []struct {
		Case  string
		Diffs []string
	}
}

// judge prints the numbers of a comparison and fails if a case differs that is
// not in the list of accepted ones for this check.
func judge(out io.Writer, in io.Reader, check, acceptedFile string) error {
	accepted, err := readAccepted(acceptedFile, check)
	if err != nil {
		return err
	}
	var c comparison
	if err := json.NewDecoder(in).Decode(&c); err != nil {
		return fmt.Errorf("%s: the comparison: %w", check, err)
	}
	fmt.Fprintf(out, "%-10s %d of %d cases are equal", check, c.Total.OK, c.Total.OK+c.Total.Bad)
	if c.Total.Unjudged > 0 {
		fmt.Fprintf(out, ", %d not judged", c.Total.Unjudged)
	}
	var facets []string
	for name, f := range c.Facets {
		facets = append(facets, fmt.Sprintf("%s %d", name, f.OK+f.Diff))
	}
	slices.Sort(facets)
	fmt.Fprintf(out, " (judged: %s)\n", strings.Join(facets, ", "))
	unknown := 0
	for _, d := range c.Diffs {
		what := strings.Join(d.Diffs, ", ")
		if reason, ok := accepted[d.Case]; ok {
			fmt.Fprintf(out, "  accepted %s (%s): %s\n", d.Case, what, reason)
			delete(accepted, d.Case)
			continue
		}
		unknown++
		fmt.Fprintf(out, "  DIFFERS  %s (%s)\n", d.Case, what)
	}
	for name := range accepted {
		fmt.Fprintf(out, "  equal now, and still in the list of accepted differences: %s\n", name)
	}
	if unknown > 0 {
		return fmt.Errorf("%s: %d differences that are not accepted", check, unknown)
	}
	return nil
}

// readAccepted reads lines of check, case and reason.
func readAccepted(path, check string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	accepted := make(map[string]string)
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 3 {
			return nil, fmt.Errorf("%s: %q is not a check, a case and a reason", path, lines.Text())
		}
		if words[0] == check {
			accepted[words[1]] = strings.Join(words[2:], " ")
		}
	}
	return accepted, lines.Err()
}
