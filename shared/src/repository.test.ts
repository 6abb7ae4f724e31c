import { describe, expect, it } from 'vitest'
import {
  checkCommit,
  checkKnownHosts,
  checkRef,
  checkRepositoryUrl,
  shortRef,
} from './repository.ts'

const strict = { allowFile: false, allowLoopbackHttp: false }
const open = { allowFile: true, allowLoopbackHttp: true }

const GOOD_URLS: [string, string, string][] = [
  ['https://github.com/acme/shop.git', 'https', 'github.com'],
  ['HTTPS://git.example.com:8443/acme/shop', 'https', 'git.example.com'],
  ['https://git.example.com/~ada/x%20y.git', 'https', 'git.example.com'],
  ['ssh://git@github.com/acme/shop.git', 'ssh', 'github.com'],
  ['SSH://git@git.example.com:2222/acme/shop.git', 'ssh', 'git.example.com'],
  ['ssh://[2001:db8::1]:22/acme/shop.git', 'ssh', '[2001:db8::1]'],
  ['git@github.com:acme/shop.git', 'ssh', 'github.com'],
  ['deploy_1@git-1.example.com:shop.git', 'ssh', 'git-1.example.com'],
]

const BAD_URLS = [
  '',
  '-',
  '--upload-pack=touch /tmp/x',
  '--upload-pack=touch$IFS',
  '-oProxyCommand=sh',
  'ext::sh -c id',
  'ext::sh',
  'EXT::sh',
  'eXt::ssh%20host',
  'ext://sh/x',
  'fd::3',
  'http::https://example.com/x',
  'file:///etc/passwd',
  'FILE:///srv/repo',
  'file://host/srv/repo',
  '/srv/repo.git',
  './repo',
  '../repo',
  'repo',
  'http://example.com/x.git',
  'http://127.0.0.1:3000/x.git',
  'git://example.com/x.git',
  'ftp://example.com/x.git',
  'javascript://example.com/%0aalert',
  'data://text/plain,x',
  'ssh+git://example.com/x',
  'git+ssh://example.com/x',
  'https://',
  'https:///x.git',
  'https://example.com',
  'https://example.com/',
  'https://user:secret@example.com/x.git',
  'https://token@example.com/x.git',
  'https://example.com:0/x.git',
  'https://example.com:99999/x.git',
  'https://example.com:22a/x.git',
  'https://-example.com/x.git',
  'https://exa mple.com/x.git',
  'https://example.com/x y.git',
  'https://example.com/x.git?ref=1',
  'https://example.com/x.git#frag',
  'https://example.com/../x.git',
  'https://example.com/a/./b',
  'https://example.com/%2e%2e/x',
  'https://example.com/a%0ab',
  'https://example.com/a%00b',
  'https://example.com/a%',
  'https://example.com/$(id)',
  'https://example.com/`id`',
  'https://example.com/x;id',
  'https://example.com/x&&id',
  'https://example.com/x|id',
  "https://example.com/x'y",
  'https://example.com/x"y',
  'https://example.com\\@evil.com/x',
  'https://example.com/\u0000',
  'https://example.com/x\n--upload-pack=id',
  'https://example.com/x\r',
  'https://example.com/x\u2028y',
  'https://example.com/\u202egit',
  'https://example.com/-oProxyCommand=x',
  'https://exämple.com/x',
  'ssh://-oProxyCommand=id/x',
  'ssh://git@-oProxyCommand=id/x',
  'ssh://-git@example.com/x',
  'ssh://git:secret@example.com/x',
  'ssh://git@example.com',
  'ssh://git@example.com/',
  'ssh://git@example.com:port/x',
  'ssh://git@example.com/%0aProxyCommand',
  'ssh://git@exam$(id)ple.com/x',
  'git@-host:x',
  '-git@host:x',
  'git@host:-x',
  'git@host:',
  'git@host:a b',
  'git@host:$(id)',
  'git@host:a/../../etc',
  'g it@host:x',
  'git@ho;st:x',
  ':x',
  'host::x',
  `https://example.com/${'a'.repeat(2_001)}`,
]

describe('repository addresses', () => {
  it.each(GOOD_URLS)('takes %s', (url, transport, host) => {
    expect(checkRepositoryUrl(url, strict)).toMatchObject({ ok: true, value: { transport, host } })
  })

  it.each(BAD_URLS)('refuses %j', (url) => {
    const checked = checkRepositoryUrl(url, strict)
    expect(checked.ok).toBe(false)
    // a sentence without characters that a terminal would interpret
    if (!checked.ok) expect(checked.problem).toMatch(/^[A-Z][^\p{Cc}]*\.$/u)
  })

  it('gives git the scheme in lower case', () => {
    const checked = checkRepositoryUrl('HTTPS://git.example.com/x', strict)
    expect(checked).toMatchObject({ value: { url: 'https://git.example.com/x' } })
  })

  it('takes folders and loopback http only where they are allowed', () => {
    expect(checkRepositoryUrl('file:///srv/repo', open).ok).toBe(true)
    expect(checkRepositoryUrl('file://host/srv', open).ok).toBe(false)
    expect(checkRepositoryUrl('file:///srv/../etc', open).ok).toBe(false)
    expect(checkRepositoryUrl('http://127.0.0.1:3000/x.git', open).ok).toBe(true)
    expect(checkRepositoryUrl('http://[::1]/x.git', open).ok).toBe(true)
    expect(checkRepositoryUrl('http://localhost.example.com/x.git', open).ok).toBe(false)
    expect(checkRepositoryUrl('ext::sh -c id', open).ok).toBe(false)
  })
})

const BAD_REFS = [
  '',
  '-',
  '--upload-pack=id',
  '-main',
  'refs/heads/-main',
  'refs/heads/a/-b',
  'refs/heads/',
  'refs/heads',
  '/main',
  'main/',
  'a//b',
  'a..b',
  '..',
  'a/../b',
  '@',
  '@{',
  'main@{1}',
  'main@{upstream}',
  '.hidden',
  'a/.b',
  'a.lock',
  'a.lock/b',
  'main.',
  'a b',
  'a\tb',
  'a\nb',
  'a\u0000b',
  'a\u007fb',
  'a\u0085b',
  'a~1',
  'a^',
  'a^{tree}',
  'a:b',
  '+a:b',
  'a?',
  'a*',
  'a[b',
  'a\\b',
  'a\u2028b',
  'a\u2029b',
  'a\u202eb',
  'a\u200bb',
  'a'.repeat(251),
]

describe('refs and commits', () => {
  it.each([
    'refs/heads/main',
    'refs/pull/12/head',
    'refs/heads/feature/ünïcode_1.2',
    'refs/tags/v1',
  ])('takes %s as it is', (ref) => {
    expect(checkRef(ref)).toEqual({ ok: true, value: ref })
  })

  it('reads a short name as a branch', () => {
    expect(checkRef('checkout-v2')).toEqual({ ok: true, value: 'refs/heads/checkout-v2' })
    expect(shortRef('refs/heads/checkout-v2')).toBe('checkout-v2')
    expect(shortRef('refs/pull/12/head')).toBe('pull/12/head')
  })

  it.each(BAD_REFS)('refuses the ref %j', (ref) => {
    const checked = checkRef(ref)
    expect(checked.ok).toBe(false)
    if (!checked.ok) expect(checked.problem).not.toMatch(/\p{Cc}/u)
  })

  it('takes full hashes only', () => {
    expect(checkCommit('a'.repeat(40)).ok).toBe(true)
    expect(checkCommit('0'.repeat(64)).ok).toBe(true)
    const bad = [
      '',
      'HEAD',
      'a'.repeat(39),
      'A'.repeat(40),
      `${'a'.repeat(39)}\n`,
      '--all',
      'g'.repeat(40),
    ]
    for (const commit of bad) expect(checkCommit(commit).ok, commit).toBe(false)
  })

  it('takes known hosts line by line', () => {
    expect(checkKnownHosts(['example.com ssh-ed25519 AAAA']).ok).toBe(true)
    expect(checkKnownHosts(['example.com ssh-ed25519 AAAA\nevil ssh-rsa B']).ok).toBe(false)
    expect(checkKnownHosts(Array(101).fill('a b c')).ok).toBe(false)
  })
})
