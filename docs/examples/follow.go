// Follows the index: prints each height, and the payer of each of its transactions.
//
//	go run follow.go [BASE_URL] [FROM_HEIGHT] [COUNT]
//
// Needs nothing but the standard library.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type height struct {
	Height      uint64 `json:"height"`
	BlockID     string `json:"block_id"`
	Collections []struct {
		ID string `json:"collection_id"`
	} `json:"collections"`
}

type collection struct {
	Transactions []struct {
		ID    string `json:"id"`
		Payer string `json:"payer"`
	} `json:"transactions"`
}

var (
	baseURL     = argument(1, "http://127.0.0.1:7180")
	from        = argument(2, "")
	lastEventID string
)

func main() {
	left, _ := strconv.Atoi(argument(3, "-1"))
	for left != 0 {
		if err := follow(&left); err != nil {
			fmt.Fprintf(os.Stderr, "%v; again in 1 s\n", err)
			time.Sleep(time.Second)
		}
	}
}

func argument(index int, otherwise string) string {
	if len(os.Args) > index {
		return os.Args[index]
	}
	return otherwise
}

// follow reads one stream until it ends. The id of the last event makes the next one go on behind it.
func follow(left *int) error {
	address := baseURL + "/events"
	if from != "" {
		address += "?from=" + from
	}
	request, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	if lastEventID != "" {
		request.Header.Set("Last-Event-ID", lastEventID)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return errors.New(response.Status)
	}
	fields := map[string]string{}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ": "); ok && name != "" {
			fields[name] = value
			continue
		}
		switch fields["event"] {
		case "end":
			return errors.New(fields["data"])
		case "rewind": // Forget what is above that height.
			fmt.Println("rewind:", fields["data"])
		case "height":
			if err := show(fields["data"]); err != nil {
				return err
			}
			lastEventID = fields["id"]
			if *left--; *left == 0 {
				return nil
			}
		}
		fields = map[string]string{}
	}
	return errors.Join(lines.Err(), errors.New("the stream ended"))
}

// show prints the whole height, or nothing of it: where an answer is cut off, the height comes again.
func show(data string) error {
	var block height
	if err := json.Unmarshal([]byte(data), &block); err != nil {
		return err
	}
	lines := fmt.Sprintln(block.Height, block.BlockID)
	for _, each := range block.Collections {
		var full collection
		if err := get("/v1/collections/"+each.ID+"?expand=transactions", &full); err != nil {
			return err
		}
		for _, transaction := range full.Transactions {
			lines += fmt.Sprintln(" ", transaction.ID, transaction.Payer)
		}
	}
	fmt.Print(lines)
	return nil
}

func get(path string, into any) error {
	response, err := http.Get(baseURL + path)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
