package test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"cellproxy/test/proxytest"
	"cellproxy/test/redistest"
)

// readmeBlocks returns the fenced code blocks of a language in the README.
func readmeBlocks(t *testing.T, language string) (texts []string) {
	t.Helper()
	for _, b := range blocks(readme(t)) {
		if b.language == language {
			texts = append(texts, b.text)
		}
	}
	if len(texts) == 0 {
		t.Fatalf("the README has no %s", language)
	}
	return texts
}

func readme(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadmeExamples runs what the README shows at a prompt, and wants to see
// what it shows.
func TestReadmeExamples(t *testing.T) {
	redis := redistest.Start(t, redistest.Options{})
	for name, proxy := range map[string]*proxytest.Proxy{
		"embedded store": proxytest.Start(t, ""),
		"redis":          proxytest.Start(t, redis.URL()),
	} {
		t.Run(name, func(t *testing.T) {
			_, port, err := net.SplitHostPort(proxy.Addr())
			if err != nil {
				t.Fatal(err)
			}
			for _, block := range readmeBlocks(t, "console") {
				for _, example := range strings.Split(block, "$ ")[1:] {
					command, want, _ := strings.Cut(example, "\n")
					here := strings.Replace(command, "redis-cli -p 6380", "redis-cli --no-raw -p "+port, 1)
					if here == command {
						t.Fatalf("%q does not begin with redis-cli -p 6380", command)
					}
					got, err := exec.Command("sh", "-c", here).CombinedOutput()
					if err != nil || string(got) != want {
						t.Errorf("%s\n%s%v, want\n%s", command, got, err, want)
					}
				}
			}
		})
	}
}

// TestDocsMakeWhatThereIs sees that the make targets of README and docs exist.
func TestDocsMakeWhatThereIs(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range pages(t) {
		for _, match := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(text, -1) {
			if !strings.Contains(string(makefile), "\n"+match[1]+":") {
				t.Errorf("%s: the Makefile has no %s", name, match[1])
			}
		}
	}
}

// TestReadmeListsTheFlags compares the README's table with what --help says.
func TestReadmeListsTheFlags(t *testing.T) {
	help, _, _ := run(t, nil, "serve", "--help")
	var want []string
	for _, match := range regexp.MustCompile(`(?m)^      --([a-z-]+)(.*)$`).FindAllStringSubmatch(help, -1) {
		value := "false"
		if !strings.HasPrefix(match[2], "   ") { // the flag has a value
			value = ""
		}
		if set := regexp.MustCompile(`\(default ([^)]+)\)$`).FindStringSubmatch(match[2]); set != nil {
			value = strings.Trim(set[1], `"[]`)
		}
		want = append(want, fmt.Sprintf("--%s = %s", match[1], value))
	}
	var got []string
	for _, match := range regexp.MustCompile("(?m)^\\| `--([a-z-]+)` \\| ?`?([^`|]*?)`? ?\\|").FindAllStringSubmatch(readme(t), -1) {
		got = append(got, fmt.Sprintf("--%s = %s", match[1], match[2]))
	}
	if !slices.Equal(got, want) {
		t.Errorf("the README has\n%s\nand --help\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
