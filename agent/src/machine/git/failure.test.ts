import { describe, expect, it } from 'vitest'
import { explainGit, isDiskFull } from './failure.ts'

const SAID: [string, string, RegExp][] = [
  ["fatal: not a git repository: '/var/lib/berth/x'", 'damaged', /local copy .* is damaged/],
  ['error: object file objects/ab/cd is empty\nfatal: loose object abcd', 'damaged', /local copy/],
  ['remote: error: object file objects/ab/cd is empty', 'other', /could not be fetched/],
  [
    "fatal: Unable to create '/var/lib/berth/x/shallow.lock': File exists.\n\nAnother git process",
    'damaged',
    /local copy/,
  ],
  [
    "error: cannot lock ref 'refs/berth/7': Unable to create '/x/refs/berth/7.lock': File exists.",
    'damaged',
    /local copy/,
  ],
  [
    'git@github.com: Permission denied (publickey).\nfatal: Could not read from remote repository.',
    'other',
    /refused the project's key/,
  ],
  [
    '@@@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @@@\nHost key verification failed.',
    'other',
    /host key of git.example.com is not the expected one/,
  ],
  [
    'No ED25519 host key is known for x and you have requested strict checking.\nHost key verification failed.',
    'other',
    /host key/,
  ],
  [
    'ssh: connect to host git.example.com port 22: Connection timed out',
    'other',
    /^No answer from git.example.com in 15 s\.$/,
  ],
  [
    'ssh: connect to host git.example.com port 22: Connection refused',
    'other',
    /cannot be reached/,
  ],
  [
    'ssh: Could not resolve hostname git.example.com: Name or service not known',
    'other',
    /cannot be resolved/,
  ],
  [
    "fatal: unable to access 'https://x/': Could not resolve host: git.example.com",
    'other',
    /cannot be resolved/,
  ],
  [
    "fatal: couldn't find remote ref refs/heads/gone",
    'missing_ref',
    /^refs\/heads\/gone does not exist/,
  ],
  [
    "remote: Repository not found.\nfatal: repository 'https://x/' not found",
    'other',
    /not found on git.example.com, or the project's key/,
  ],
  ["fatal: '/srv/x' does not appear to be a git repository", 'other', /was not found/],
  [
    'fatal: remote error: upload-pack: not our ref 1234',
    'refused',
    /does not hand out this commit/,
  ],
  [
    'error: Server does not allow request for unadvertised object 1234',
    'refused',
    /does not hand out/,
  ],
  [
    "fatal: could not read Username for 'https://git.example.com': terminal prompts disabled",
    'other',
    /asks for a password/,
  ],
  [
    "fatal: unable to access 'https://x/': The requested URL returned error: 403",
    'other',
    /asks for a password/,
  ],
  [
    "fatal: unable to access 'https://x/': SSL certificate problem: self-signed certificate",
    'other',
    /certificate of git.example.com/,
  ],
  [
    'fatal: unable to update url base from redirection: asked for a',
    'other',
    /redirects to another address/,
  ],
  ['fatal: write error: No space left on device', 'other', /disk of this server is full/],
  [
    'something\nfatal: the remote end hung up unexpectedly',
    'other',
    /could not be fetched: fatal: the remote end hung up/,
  ],
  ['', 'other', /git said nothing/],
]

describe('explainGit', () => {
  it.each(SAID)('%j', (text, trouble, message) => {
    const failure = explainGit(text, 'git.example.com')
    expect(failure.trouble).toBe(trouble)
    expect(failure.message).toMatch(message)
  })

  it('cuts what it does not know', () => {
    expect(explainGit(`fatal: ${'x'.repeat(10_000)}`, 'h').message.length).toBeLessThan(400)
  })
})

it('knows a full disk', () => {
  expect(isDiskFull('write error: No space left on device')).toBe(true)
  expect(isDiskFull('Permission denied')).toBe(false)
})
