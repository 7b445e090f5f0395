package logs

import (
	"fmt"
	"regexp"
	"time"
)

// visit returns the log of a visit to a shop, in the common log format.
func (m *maker) visit(fault string) []step {
	ip := fmt.Sprintf("10.%d.%d.%d", m.rng.IntN(4), m.rng.IntN(256), m.rng.IntN(256))
	item := m.rng.IntN(5000)
	type request struct {
		method, path string
		status, size int
	}
	all := []request{
		{"GET", "/", 200, 5120}, {"GET", "/static/app.css", 200, 18234}, {"GET", "/static/app.js", 200, 91822},
		{"GET", fmt.Sprintf("/api/items?page=%d", 1+m.rng.IntN(9)), 200, 0},
		{"GET", fmt.Sprintf("/api/items/%d", item), 200, 0},
		{"POST", "/api/cart", 201, 64}, {"GET", "/cart", 200, 2048}, {"POST", "/api/checkout", 302, 0},
		{"GET", fmt.Sprintf("/orders/%d", 100000+m.rng.IntN(900000)), 200, 3072},
	}
	if m.rng.IntN(12) == 0 { // an item that does not exist
		all[4].status = 404
		all = append(all[:5], request{"GET", "/", 200, 5120})
	}
	at := 1 + m.rng.IntN(len(all)-2)
	switch fault {
	case Word:
		all[at].path = "/" + m.strange() + m.one(".php", ".env", ".cgi", "/")
	case Combination:
		switch m.rng.IntN(3) {
		case 0:
			all[2].status = 302 // of a static file
		case 1:
			all[1].method = "POST" // to a static file
		default:
			all[3].path = "/api/cart" // which no ordinary visit requests with GET
			all[3].status = 404
		}
	}
	var steps []step
	for i, r := range all {
		s := step{text: func(now time.Time) string {
			size := r.size
			if size == 0 {
				size = 200 + m.rng.IntN(4000)
			}
			return fmt.Sprintf(`%s - - [%s] "%s %s HTTP/1.1" %d %d`, ip,
				now.Format("02/Jan/2006:15:04:05 -0700"), r.method, r.path, r.status, size)
		}}
		if fault == Word && i == at {
			s.fault = Word
		}
		steps = append(steps, s)
	}
	if fault == Combination {
		for i, r := range all {
			ordinary := r.status == 302 && i == 2 || r.method == "POST" && i == 1 || r.path == "/api/cart" && i == 3
			if ordinary {
				steps[i].fault = Combination
			}
		}
	}
	return steps
}

// login returns the system log of a login or of a cron task, in the BSD syslog format.
func (m *maker) login(fault string) []step {
	host, pid := m.one("web1", "web2", "db1"), 1000+m.rng.IntN(30000)
	var messages []string
	if m.rng.IntN(3) == 0 {
		job := m.one("backup", "rotate", "report", "cleanup")
		messages = []string{
			"CRON[%d]: pam_unix(cron:session): session opened for user root",
			"CRON[%d]: (root) CMD (/usr/local/bin/" + job + ")", job + "[%d]: started",
			fmt.Sprintf("%s[%%d]: %d files done", job, m.rng.IntN(3000)), job + "[%d]: finished",
			"CRON[%d]: pam_unix(cron:session): session closed for user root",
		}
		if fault == Combination { // a message of another program
			messages[2] = "sshd[%d]: started"
		}
	} else {
		user, port := m.one("alice", "bob", "carol", "deploy"), 32768+m.rng.IntN(28000)
		ip := fmt.Sprintf("192.168.%d.%d", m.rng.IntN(8), 1+m.rng.IntN(254))
		method := "publickey"
		if user == "bob" {
			method = "password"
		}
		if fault == Combination {
			method, user = "password", "deploy"
		}
		messages = []string{
			fmt.Sprintf("sshd[%%d]: Connection from %s port %d", ip, port),
			fmt.Sprintf("sshd[%%d]: Accepted %s for %s from %s port %d ssh2", method, user, ip, port),
			"sshd[%d]: pam_unix(sshd:session): session opened for user " + user,
			"systemd-logind[614]: New session of user " + user,
			"sshd[%d]: Received disconnect from " + ip,
			"sshd[%d]: pam_unix(sshd:session): session closed for user " + user,
		}
	}
	at := 1 + m.rng.IntN(len(messages)-2)
	if fault == Word {
		messages[at] = "sshd[%d]: error: " + m.strange() + " " + m.strange()
	}
	var steps []step
	for i, text := range messages {
		s := step{text: func(now time.Time) string {
			line := now.Format("Jan _2 15:04:05") + " " + host + " "
			if text[0] == 's' && text[1] == 'y' {
				return line + text
			}
			return line + fmt.Sprintf(text, pid)
		}}
		cron := text[0] != 's' || messages[0][0] == 'C'
		if fault == Word && i == at || fault == Combination && (cron && i == 2 || !cron && i == 1) {
			s.fault = fault
		}
		steps = append(steps, s)
	}
	return steps
}

// job returns the log of a service's job, which logs its steps with their measurements.
func (m *maker) job(fault string) []step {
	id, worker := m.rng.IntN(1000), 1+m.rng.IntN(4)
	size := 1000 + m.rng.IntN(90000)
	names := []string{"accept", "fetch", "parse", "verify", "store", "index", "notify", "done"}
	fields := []string{
		"queue=" + m.one("mail", "report", "image"), fmt.Sprintf("bytes=%d", size), "format=" + m.one("json", "xml"),
		"checksum=ok", "rows=ok", "shard=" + m.one("a", "b", "c"), "status=202", "result=ok",
	}
	level := make([]string, len(names))
	for i := range level {
		level[i] = "INFO"
	}
	if m.rng.IntN(15) == 0 { // a slow queue
		level[6], fields[6] = "WARN", "status=503 retry=1"
	}
	at := 1 + m.rng.IntN(len(names)-2)
	switch fault {
	case Word:
		fields[at] = "error=" + m.strange()
	case Combination:
		if at == 6 {
			at = 3
		}
		level[at] = "WARN" // at a step that never has it
	}
	var steps []step
	for i, name := range names {
		s := step{text: func(now time.Time) string {
			return fmt.Sprintf("%s %s worker-%d job=%03d step=%s %s took=%dms", now.Format("15:04:05"),
				level[i], worker, id, name, fields[i], 1+m.rng.IntN(300))
		}}
		if (fault == Word || fault == Combination) && i == at {
			s.fault = fault
		}
		steps = append(steps, s)
	}
	return steps
}

// Times matches the time of a line of any kind of log.
var Times = regexp.MustCompile(`\d\d/\w{3}/\d{4}:[\d:]{8}|^\w{3} [ \d]\d [\d:]{8}|^\d\d:\d\d:\d\d`)
