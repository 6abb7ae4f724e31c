// Checks each hint against real output: the texts below come from dash, bash, Node.js, npm, Python, TypeScript, Go,
// GCC, rustc and javac, shortened where they repeat themselves.
import { describe, expect, it } from 'vitest'
import { readHints } from './hints.ts'

const hints = (output: string, over: object = {}) =>
  readHints({
    failure: {
      code: 'step_failed',
      exit_code: 1,
      step_title: 'npm run build',
      is_platform_check: false,
      ...over,
    },
    lines: output.replace(/^\n/, '').trimEnd().split('\n'),
  }).map(({ code, message }) => `${code}: ${message}`)

const NODE_STACK = `
    at Module._resolveFilename (node:internal/modules/cjs/loader:1207:15)
    at Module._load (node:internal/modules/cjs/loader:1038:27) {
  code: 'MODULE_NOT_FOUND',
  requireStack: [ '/tmp/app/[eval]' ]
}

Node.js v20.20.2`

describe('memory and disk', () => {
  it('a process that was killed', () => {
    expect(hints('Killed', { exit_code: 137 })).toEqual([
      'out_of_memory: Exit code 137 means a process was ended with SIGKILL, and the shell says "Killed"; the usual reason is too little memory.',
    ])
    expect(hints('building…', { exit_code: 137 })[0]).toMatch(/^out_of_memory: .* SIGKILL; the/)
  })

  it('the kernel counted it', () => {
    expect(hints('building…', { code: 'out_of_memory', exit_code: 137 })).toEqual([
      'out_of_memory: The kernel ended a process of "npm run build" for its memory.',
    ])
  })

  it('the heap of Node.js', () => {
    const said = `
<--- JS stacktrace --->

FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory
----- Native stack trace -----
Aborted`
    expect(hints(said, { exit_code: 134 })).toEqual([
      'out_of_memory: Node.js ran out of its own heap. Raise it with NODE_OPTIONS=--max-old-space-size, below the memory of the step.',
    ])
  })

  it('a full disk', () => {
    expect(hints("dd: error writing '/var/cache/x': No space left on device")).toEqual([
      "disk_full: The disk of the server is full: dd: error writing '/var/cache/x': No space left on device",
    ])
    expect(hints('', { code: 'disk_full', is_platform_check: true })[0]).toMatch(/^disk_full: /)
  })
})

describe('what a step needs and does not have', () => {
  it.each([
    ['/bin/sh: 1: DATABASE_URL: parameter not set', 'DATABASE_URL'],
    ['bash: line 1: APP_KEY: unbound variable', 'APP_KEY'],
    [
      'Traceback (most recent call last):\n  File "<frozen os>", line 679, in __getitem__\nKeyError: \'STRIPE_KEY\'',
      'STRIPE_KEY',
    ],
    ['Error: SMTP_HOST is not set', 'SMTP_HOST'],
    ['Error: SMTP_HOST is required', 'SMTP_HOST'],
    ['Error: Missing required environment variable: SESSION_SECRET', 'SESSION_SECRET'],
    ['Environment variable "REDIS_URL" is not defined.', 'REDIS_URL'],
  ])('a variable: %s', (said, key) => {
    const code = said.includes('unbound') ? 127 : 2
    expect(hints(said, { exit_code: code })).toEqual([
      `missing_variable: The variable ${key} is not set. Set it for the environment and deploy again: berth vars set ${key}`,
    ])
  })

  it('a port that somebody holds', () => {
    const node = `
Error: listen EADDRINUSE: address already in use :::39211
    at Server.setupListenHandle [as _listen2] (node:net:1908:16)
Emitted 'error' event on Server instance at:
    at emitErrorNT (node:net:1944:8) {
  code: 'EADDRINUSE',
  port: 39211
}`
    expect(hints(node)).toEqual(['port_in_use: Port 39211 is held by another process already.'])
    expect(hints('OSError: [Errno 98] Address already in use')).toEqual([
      'port_in_use: The port it wants to listen on is held by another process already.',
    ])
  })

  it('a command', () => {
    const text = 'command_not_found: The command nosuchtool is not installed on the server.'
    expect(hints('/bin/sh: 1: nosuchtool: not found', { exit_code: 127 })).toEqual([text])
    expect(hints('bash: line 1: nosuchtool: command not found', { exit_code: 127 })).toEqual([text])
    expect(hints('', { exit_code: 127 })[0]).toMatch(/^command_not_found: Exit code 127/)
  })

  it('a file', () => {
    expect(hints('cat: config.json: No such file or directory')).toEqual([
      'missing_file: config.json does not exist where the step looks for it.',
    ])
    expect(hints('/bin/sh: 1: ./missing.sh: not found', { exit_code: 127 })).toEqual([
      'missing_file: ./missing.sh is not in the checkout, or its interpreter is not on the server.',
    ])
    expect(
      hints(`Error: ENOENT: no such file or directory, open 'dist/index.html'${NODE_STACK}`),
    ).toEqual(['missing_file: dist/index.html does not exist where the step looks for it.'])
    expect(
      hints("FileNotFoundError: [Errno 2] No such file or directory: 'settings.toml'"),
    ).toEqual(['missing_file: settings.toml does not exist where the step looks for it.'])
  })

  it('a right', () => {
    expect(hints('/bin/sh: 1: ./noexec.sh: Permission denied', { exit_code: 126 })).toEqual([
      'permission_denied: Not allowed: /bin/sh: 1: ./noexec.sh: Permission denied. A script must be executable in the repository (git update-index --chmod=+x).',
    ])
    expect(
      hints("Error: EACCES: permission denied, open '/etc/shadow'").map((one) => one.slice(0, 17)),
    ).toEqual(['permission_denied'])
  })

  it('a module', () => {
    expect(
      hints(`Error: Cannot find module 'express'\nRequire stack:\n- /tmp/app/[eval]${NODE_STACK}`),
    ).toEqual([
      'missing_module: Node.js does not find express; is it among the dependencies, and were they installed?',
    ])
    expect(
      hints(
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'left-pad' imported from /tmp/app/a.mjs",
      ),
    ).toEqual([
      'missing_module: Node.js does not find left-pad; is it among the dependencies, and were they installed?',
    ])
    expect(hints("ModuleNotFoundError: No module named 'flask'")).toEqual([
      'missing_module: Python does not find the module flask; is it installed?',
    ])
    const pip = `Looking in links: /opt/wheels
ERROR: Could not find a version that satisfies the requirement nosuchpackage (from versions: none)
ERROR: No matching distribution found for nosuchpackage`
    expect(hints(pip)).toEqual([
      'missing_module: pip found no package that satisfies nosuchpackage.',
    ])
  })

  it('somebody to talk to', () => {
    expect(hints('Error: connect ECONNREFUSED 127.0.0.1:5999')).toEqual([
      'connection_refused: Nothing answers at 127.0.0.1:5999.',
    ])
    expect(hints('Error: getaddrinfo ENOTFOUND db.nosuch.invalid')).toEqual([
      'name_not_resolved: The server cannot resolve the name db.nosuch.invalid.',
    ])
  })
})

describe('what a tool found wrong', () => {
  it('a script of package.json', () => {
    const npm = `
npm error Missing script: "build"
npm error
npm error To see a list of scripts, run:
npm error   npm run
npm error A complete log of this run can be found in: /root/.npm/_logs/debug-0.log`
    expect(hints(npm)).toEqual(['missing_script: package.json has no script "build".'])
    expect(hints('npm ERR! Missing script: "build"')).toHaveLength(1)
  })

  it('npm itself', () => {
    const ci = `
npm error code EUSAGE
npm error
npm error The \`npm ci\` command can only install with an existing package-lock.json or
npm error npm-shrinkwrap.json with lockfileVersion >= 1. Run an install with npm@5 or
npm error later to generate a package-lock.json file, then try again.`
    expect(hints(ci)).toEqual([
      'npm_error: npm stopped with EUSAGE: The `npm ci` command can only install with an existing package-lock.json or',
    ])
    const absent = `
npm error code ENOENT
npm error syscall open
npm error path /tmp/app/package.json
npm error errno -2
npm error enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/tmp/app/package.json'`
    expect(hints(absent)).toEqual([
      "npm_error: npm stopped with ENOENT: enoent Could not read package.json: Error: ENOENT: no such file or directory, open '/tmp/app/package.json'",
    ])
  })

  const TYPE = "Type 'string' is not assignable to type 'number'."
  it.each([
    [
      `src/cart.ts(14,7): error TS2322: ${TYPE}`,
      `TypeScript build failed in src/cart.ts:14: ${TYPE}`,
    ],
    [
      `src/cart.ts:14:7 - error TS2322: ${TYPE}\n\n14 const total: number = "12"\n\nFound 1 error in src/cart.ts:14`,
      `TypeScript build failed in src/cart.ts:14: ${TYPE}`,
    ],
    [
      '# command-line-arguments\n./main.go:2:15: declared and not used: x\n./main.go:2:20: undefined: y',
      'Go build failed in ./main.go:2: declared and not used: x',
    ],
    [
      'm.c: In function ‘main’:\nm.c:1:20: error: ‘y’ undeclared (first use in this function)\n    1 | int main(){ return y; }',
      'C build failed in m.c:1: ‘y’ undeclared (first use in this function)',
    ],
    [
      'error[E0308]: mismatched types\n --> m.rs:1:25\n  |\n1 | fn main(){ let x: i32 = "a"; }',
      'Rust build failed in m.rs:1: mismatched types',
    ],
    [
      'M.java:1: error: incompatible types: String cannot be converted to int\nclass M { int x = "a"; }\n1 error',
      'Java build failed in M.java:1: incompatible types: String cannot be converted to int',
    ],
  ])('a compiler: %s', (said, message) => {
    expect(hints(said)).toEqual([`compile_error: The ${message}`])
  })
})

it('has nothing to say where nothing is recognised', () => {
  expect(hints('something went wrong\nplease try again')).toEqual([])
  expect(hints('')).toEqual([])
})

it('quotes a long line only so far', () => {
  const [one] = hints(`cp: ${'x'.repeat(4_000)}: Permission denied`)
  expect(one?.length).toBeLessThan(250)
})

it('repeats masked values masked', () => {
  expect(hints("Error: EACCES: permission denied, open '/srv/***'")[0]).toContain('/srv/***')
})
