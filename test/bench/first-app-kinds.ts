// Six kinds of repository, as a new user has them: nothing in them knows Berth.
export interface Kind {
  name: string
  files: Record<string, string>
  /** What the page must contain; a preview contains NEXT instead. */
  shows: string
  /** The file with that text. */
  changed: string
}

/** In place of `shows` in the pull request. */
export const NEXT = 'second version'

const lock = JSON.stringify({
  name: 'node-app',
  lockfileVersion: 3,
  requires: true,
  packages: { '': { name: 'node-app' } },
})

export const kinds = (go: string): Kind[] => [
  {
    name: 'dockerfile',
    shows: 'from a Dockerfile',
    changed: 'index.html',
    files: {
      Dockerfile:
        'FROM alpine:3\nCOPY index.html /www/index.html\nEXPOSE 8080\nUSER 1000\nCMD ["httpd", "-f", "-p", "8080", "-h", "/www"]\n',
      'index.html': '<h1>from a Dockerfile</h1>\n',
    },
  },
  {
    name: 'compose',
    shows: 'from compose',
    changed: 'index.html',
    files: {
      'compose.yaml': `services:
  web:
    build: .
    ports: ["8080:8080"]
    depends_on: [clock]
  clock:
    image: alpine:3
    command: ["sh", "-c", "while :; do date; sleep 60; done"]
`,
      Dockerfile:
        'FROM alpine:3\nCOPY index.html /www/index.html\nEXPOSE 8080\nUSER 1000\nCMD ["httpd", "-f", "-p", "8080", "-h", "/www"]\n',
      'index.html': '<h1>from compose</h1>\n',
    },
  },
  {
    name: 'node',
    shows: 'from Node.js',
    changed: 'server.js',
    files: {
      'package.json': JSON.stringify({ name: 'node-app', scripts: { start: 'node server.js' } }),
      'package-lock.json': lock,
      'server.js':
        "require('node:http').createServer((q, r) => r.end('from Node.js\\n')).listen(process.env.PORT || 3000)\n",
    },
  },
  {
    name: 'python',
    shows: 'from Flask',
    changed: 'app.py',
    files: {
      'requirements.txt': 'flask\n',
      'app.py':
        "from flask import Flask\n\napp = Flask(__name__)\n\n\n@app.get('/')\ndef index():\n    return 'from Flask'\n",
    },
  },
  {
    name: 'go',
    shows: 'from Go',
    changed: 'main.go',
    files: {
      'go.mod': `module example.com/app\n\ngo ${go}\n`,
      'main.go': `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "from Go") })
	http.ListenAndServe(":"+os.Getenv("PORT"), nil)
}
`,
    },
  },
  {
    name: 'static',
    shows: 'from a folder',
    changed: 'index.html',
    files: { 'index.html': '<h1>from a folder</h1>\n' },
  },
]
