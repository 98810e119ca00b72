// Asks the handler of docs/redis.md six times.

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
)

const OPEN = false

func main() {
	served := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	limited := Limit("5/60s", OPEN, served)
	for nth := 0; nth < 6; nth++ {
		answer := httptest.NewRecorder()
		limited.ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
		after, _ := strconv.Atoi(answer.Header().Get("Retry-After"))
		if answer.Code == 429 && (after < 1 || after > 60) {
			fmt.Print("retry after ", after, ": ")
		}
		fmt.Println(answer.Code)
	}
}
