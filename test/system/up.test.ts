// berth up in a whole installation of real processes: the real client, a real git server that takes pushes, an agent
// with an engine, and the Dockerfiles that the client writes, built on images that stand in for those of a registry.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Environment, Project } from '@berth/shared/api'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { berth, nowhere, startInTerminal } from '../../cli/src/testing/berth.ts'
import { makeStandIns } from '../fixtures/docker/images.ts'
import { GIT_ENV, GitHost } from '../fixtures/forge/git-host.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { Fixture } from '../fixtures/server/installation.ts'
import { isRoot } from '../fixtures/server/server.ts'

const engine = dockerEngine()
const TIMEOUT = 600_000

/** The Go of this machine; null: there is none. */
function goVersion(): string | null {
  try {
    return /go(1\.\d+)/.exec(execFileSync('go', ['version'], { encoding: 'utf8' }))?.[1] ?? null
  } catch {
    return null
  }
}
const go = goVersion()

const lock = (name: string): string =>
  JSON.stringify({ name, lockfileVersion: 3, requires: true, packages: { '': { name } } })

const SERVER = `require('node:http')
  .createServer((q, r) => r.end(q.url === '/healthz' ? 'ok' : 'hello from ' + process.getuid() + '\\n'))
  .listen(process.env.PORT || 3000)
`

const KINDS: Record<string, { files: Record<string, string>; recipe: string; answers: RegExp }> = {
  'node-app': {
    files: {
      'package.json': JSON.stringify({ name: 'node-app', scripts: { start: 'node server.js' } }),
      'package-lock.json': lock('node-app'),
      'server.js': SERVER,
    },
    recipe: 'docker',
    // not root
    answers: /^hello from 1001\n$/,
  },
  'vite-site': {
    files: {
      'package.json': JSON.stringify({
        name: 'vite-site',
        devDependencies: {},
        scripts: { build: "mkdir -p dist && echo '<h1>built</h1>' > dist/index.html" },
      }),
      'package-lock.json': lock('vite-site'),
    },
    recipe: 'docker',
    answers: /<h1>built<\/h1>/,
  },
  page: {
    files: { 'index.html': '<h1>static</h1>\n' },
    recipe: 'manual',
    answers: /<h1>static<\/h1>/,
  },
  ...(go === null
    ? {}
    : {
        'go-app': {
          files: {
            'go.mod': `module example.com/app\n\ngo ${go}\n`,
            'main.go': `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {})
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "go as %d", os.Getuid())
	})
	http.ListenAndServe(":"+os.Getenv("PORT"), nil)
}
`,
          },
          recipe: 'docker',
          answers: /^go as 1000$/,
        },
      }),
}

describe.skipIf(!engine || missing('caddy') || !isRoot)('berth up on a real server', () => {
  let fixture: Fixture
  let host: GitHost
  beforeAll(async () => {
    if (!engine) return
    await makeStandIns(engine.socket, go ?? '1.25')
    fixture = await Fixture.open({ docker: engine })
    host = await GitHost.start()
  }, TIMEOUT)
  afterAll(async () => {
    await host?.close()
    await fixture?.close()
  })
  const login = (): Record<string, string> => ({
    ...GIT_ENV,
    BERTH_URL: fixture.url,
    BERTH_TOKEN: fixture.token,
    BERTH_CONFIG_DIR: nowhere(),
  })

  test.each(Object.entries(KINDS))('%s', { timeout: TIMEOUT }, async (name, kind) => {
    const cwd = host.checkout(name, kind.files)
    const first = await berth(['up', '--yes', '--json'], { cwd, env: login() })
    expect(first.code, first.stderr).toBe(0)
    const made = JSON.parse(first.stdout) as { url: string; environment: Environment }
    expect(made.environment.recipe).toBe(kind.recipe)
    expect((await fixture.visit(made.url)).text).toMatch(kind.answers)
    expect(existsSync(join(cwd, 'Dockerfile'))).toBe(kind.recipe === 'docker')
    const again = await berth(['up'], { cwd, env: login() })
    expect([again.code, again.stdout], again.stderr).toEqual([0, `${made.url}\n`])
    const all = await fixture.get<Project[]>('/api/projects')
    expect(all.filter((one) => one.name === name)).toHaveLength(1)
  })

  test('in a terminal, commands on the server: one question, then the address', {
    timeout: TIMEOUT,
  }, async () => {
    const cwd = host.checkout('terminal', KINDS['node-app']?.files ?? {})
    const words = ['up', '--recipe', 'manual', '--no-open']
    const running = startInTerminal(words, { cwd, env: login() })
    await running.shows(/Commit \.service\.yml and push to origin\/main\? \[y\/N\]/)
    running.type('y\r')
    const { code, stdout } = await running.ended
    expect(code, stdout).toBe(0)
    expect(readFileSync(join(cwd, '.service.yml'), 'utf8')).toContain('run: exec node server.js')
    const url = /https?:\/\/main\.terminal\.localhost:\d+/.exec(stdout)?.[0] ?? null
    expect((await fixture.visit(url)).text).toMatch(/^hello from \d+\n$/)
  })
})
