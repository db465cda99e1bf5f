package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"cellproxy/proxy"
)

// readUsers returns whom the proxy asks for a password: the default user, if
// there is a password for it, and those of the file, if there is one.
func readUsers(requirepass, file string) (proxy.Users, error) {
	users := make(proxy.Users)
	if requirepass != "" {
		users["default"] = sha256.Sum256([]byte(requirepass))
	}
	if file == "" {
		return users, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read --users-file: %w", err)
	}
	for i, line := range strings.Split(string(text), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, password, _ := strings.Cut(line, " ")
		hash, err := passwordHash(strings.TrimSpace(password))
		if err != nil {
			return nil, fmt.Errorf("invalid --users-file: line %d: %w", i+1, err)
		}
		users[name] = hash
	}
	if len(users) == 0 {
		return nil, fmt.Errorf("invalid --users-file: %s names no users", file)
	}
	return users, nil
}

// passwordHash takes a password, or # and its SHA-256 in hexadecimal, as
// Redis's ACL files have it.
func passwordHash(password string) (hash [sha256.Size]byte, err error) {
	digits, hashed := strings.CutPrefix(password, "#")
	if password == "" {
		return hash, fmt.Errorf("a user without a password")
	}
	if !hashed {
		return sha256.Sum256([]byte(password)), nil
	}
	sum, err := hex.DecodeString(digits)
	if err != nil || len(sum) != len(hash) {
		return hash, fmt.Errorf("not a SHA-256 in hexadecimal")
	}
	return [sha256.Size]byte(sum), nil
}
