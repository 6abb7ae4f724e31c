import { execFileSync } from 'node:child_process'
import { createSecretKey, randomBytes } from 'node:crypto'
import {
  chmodSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SECRET_STORE } from '../limits/keys.ts'
import {
  createKek,
  encodePlace,
  KekError,
  LABELS,
  loadKek,
  type Place,
  SecretStore,
  SecretStoreError,
} from './secret-store.ts'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'berth-secret-store-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

let count = 0
const fresh = () => join(folder, `kek-${++count}`)
function write(content: string | Uint8Array, mode = 0o400): string {
  const file = fresh()
  writeFileSync(file, content)
  chmodSync(file, mode)
  return file
}

describe('the key file', () => {
  test('is made once, on its own, readable by its owner alone, and read back', () => {
    const file = fresh()
    const kek = createKek(file)
    expect(statSync(file).mode & 0o777).toBe(0o400)
    expect(loadKek(file).id).toBe(kek.id)
    expect(loadKek(file).key.equals(kek.key)).toBe(true)
    const before = statSync(file).ino
    expect(() => createKek(file)).toThrow(/exists already/)
    expect(statSync(file).ino).toBe(before)
    expect(readdirSync(folder).filter((name) => name.endsWith('.new'))).toEqual([])
  })

  test('may hold 32 raw bytes, base64 or base64url, with or without a newline', () => {
    const bytes = randomBytes(32)
    const id = loadKek(write(bytes)).id
    const texts = [
      bytes.toString('base64'),
      `${bytes.toString('base64')}\n`,
      bytes.toString('base64url'),
    ]
    for (const text of texts) expect(loadKek(write(text)).id).toBe(id)
  })

  test('made by the advice in the messages is accepted', () => {
    const text = execFileSync('/bin/sh', ['-c', 'head -c 32 /dev/urandom | base64'])
    expect(loadKek(write(text)).id).toMatch(/^[\w-]{12}$/)
  })

  test.each([
    ['missing', () => fresh(), /does not exist.*Restore/s],
    ['empty', () => write(''), /too short/],
    ['31 bytes', () => write(randomBytes(31)), /too short/],
    ['33 bytes', () => write(randomBytes(33)), /something else/],
    ['huge', () => write(randomBytes(100_000)), /something else/],
    ['zeros', () => write(new Uint8Array(32)), /not random/],
    ['zeros in base64', () => write(Buffer.alloc(32).toString('base64')), /not random/],
    ['a pattern', () => write(Buffer.alloc(32, 'abcdefg\xff')), /not random/],
    ['a phrase of 32 letters', () => write('the quick brown fox jumps over 1'), /not random/],
    [
      'readable by the group',
      () => write(randomBytes(32), 0o440),
      /open to other users.*chmod 0400/s,
    ],
    ['readable by the world', () => write(randomBytes(32), 0o404), /open to other users/],
    ['writable by the group', () => write(randomBytes(32), 0o420), /open to other users/],
    ['a folder', () => folder, /not a regular file/],
  ])('%s: refused with what to do', (_name, make, message) => {
    expect(() => loadKek(make())).toThrow(KekError)
    expect(() => loadKek(make())).toThrow(message)
  })

  test.skipIf(process.geteuid?.() !== 0)('of another user: refused', () => {
    const file = write(randomBytes(32))
    chownSync(file, 12_345, 12_345)
    expect(() => loadKek(file)).toThrow(/belongs to another user/)
  })

  test('never prints its key', () => {
    const bytes = randomBytes(32)
    const kek = loadKek(write(bytes))
    const shown = inspect(kek, { depth: 9, showHidden: true }) + JSON.stringify(kek)
    for (const form of ['hex', 'base64', 'base64url'] as const)
      expect(shown).not.toContain(bytes.toString(form))
  })
})

describe('a sealed value', () => {
  const place: Place = { table: 'variables', column: 'value', organizationId: 7, rowId: 41 }
  const plain = Buffer.from('postgres://app:s3cret@db/app')
  const newSecretStore = () => new SecretStore(createKek(fresh()))

  test('opens in its own place, and two seals of one value have nothing in common', async () => {
    const secretStore = newSecretStore()
    const [a, b] = [
      secretStore.seal('variable', place, plain),
      secretStore.seal('variable', place, plain),
    ]
    expect(Buffer.from(await secretStore.open('variable', place, a))).toEqual(plain)
    expect(a.split('|')).toHaveLength(6)
    expect(a).toMatch(/^v1\|[\w-]{12}(\|[\w-]*){4}$/)
    for (const part of [2, 3, 4, 5]) expect(a.split('|')[part]).not.toBe(b.split('|')[part])
  })

  test('may be empty, and has an upper bound', async () => {
    const secretStore = newSecretStore()
    const empty = secretStore.seal('variable', place, new Uint8Array())
    expect(await secretStore.open('variable', place, empty)).toHaveLength(0)
    const tooLong = new Uint8Array(SECRET_STORE.plainBytes + 1)
    expect(() => secretStore.seal('variable', place, tooLong)).toThrow(SecretStoreError)
  })

  test('moved to another place or read under another label is refused', async () => {
    const secretStore = newSecretStore()
    const sealed = secretStore.seal('variable', place, plain)
    const moves: Partial<Place>[] = [
      { table: 'projects' },
      { column: 'previous' },
      { organizationId: 8 },
      { organizationId: null },
      { rowId: 42 },
      { rowId: '41' },
    ]
    for (const move of moves)
      await expect(secretStore.open('variable', { ...place, ...move }, sealed)).rejects.toThrow(
        /moved/,
      )
    for (const label of LABELS.filter((l) => l !== 'variable'))
      await expect(secretStore.open(label, place, sealed)).rejects.toThrow(SecretStoreError)
    await expect(secretStore.open('no-such' as 'ca', place, sealed)).rejects.toThrow(/no label/)
  })

  test('with one changed bit is refused, for every bit of the text', async () => {
    const secretStore = newSecretStore()
    // 1, 2 and 3 bytes: each leaves a different number of unused bits in the last character
    for (const length of [1, 2, 3, 300]) {
      const sealed = Buffer.from(secretStore.seal('ca', place, randomBytes(length)), 'latin1')
      for (let bit = 0; bit < sealed.length * 8; bit++) {
        const changed = Buffer.from(sealed)
        changed.writeUInt8(changed.readUInt8(bit >> 3) ^ (1 << (bit & 7)), bit >> 3)
        await expect(secretStore.open('ca', place, changed.toString('latin1'))).rejects.toThrow(
          SecretStoreError,
        )
      }
    }
  })

  test('with parts missing, added, cut or padded is refused', async () => {
    const secretStore = newSecretStore()
    const sealed = secretStore.seal('variable', place, plain)
    const parts = sealed.split('|')
    const tag = parts.at(-1) ?? ''
    const forms = [
      '',
      'v1',
      parts.slice(0, 5).join('|'),
      `${sealed}|`,
      `${sealed}|AA`,
      `${sealed}=`,
    ]
    forms.push([...parts.slice(0, 5), tag.slice(0, 6)].join('|')) // a tag of 4 bytes
    for (const form of forms)
      await expect(secretStore.open('variable', place, form)).rejects.toThrow(SecretStoreError)
  })

  test('opens after the key was changed as long as the former key is there', async () => {
    const [old, now] = [createKek(fresh()), createKek(fresh())]
    const sealed = new SecretStore(old).seal('variable', place, plain)
    const both = new SecretStore(now, [old])
    expect(Buffer.from(await both.open('variable', place, sealed))).toEqual(plain)
    expect(both.seal('variable', place, plain)).toContain(now.id)
    await expect(new SecretStore(now).open('variable', place, sealed)).rejects.toThrow(
      /another key/,
    )
  })
})

describe('data keys of one organization', () => {
  const made = (id: number) => ({ id, organizationId: 1, key: createSecretKey(randomBytes(32)) })
  const place = { table: 't', column: 'c', organizationId: 1, rowId: 1 }

  test('the newest seals, in whatever order they are told', () => {
    const secretStore = new SecretStore(createKek(fresh()))
    const [one, two, three] = [made(1), made(2), made(3)]
    for (const key of [one, three, two]) secretStore.addDataKey(key)
    expect(secretStore.findDataKey(1)).toBe(three)
    expect(secretStore.listRetired()).toEqual([one, two])
    expect(secretStore.seal('variable', place, Buffer.from('x'))).toMatch(/^v2\|3\|/)
  })
})

describe('data keys that another control plane made', () => {
  test('are found by the value that needs one, and only then', async () => {
    const kek = createKek(fresh())
    const [here, there] = [new SecretStore(kek), new SecretStore(kek)]
    const place = { table: 't', column: 'c', organizationId: 1, rowId: 1 }
    const key = { id: 7, organizationId: 1, key: createSecretKey(randomBytes(32)) }
    there.addDataKey(key)
    const sealed = there.seal('variable', place, Buffer.from('x'))
    await expect(here.open('variable', place, sealed)).rejects.toThrow(/another key/)
    const asked: number[] = []
    here.findMissingWith(async (id) => {
      asked.push(id)
      if (id === key.id) here.addDataKey(key)
    })
    for (const _ of [1, 2]) {
      expect(Buffer.from(await here.open('variable', place, sealed)).toString()).toBe('x')
    }
    await expect(here.open('variable', place, sealed.replace('|7|', '|8|'))).rejects.toThrow(
      /another key/,
    )
    expect(asked).toEqual([7, 8])
    expect(here.seal('variable', place, Buffer.from('y'))).toMatch(/^v2\|7\|/)
  })
})

describe('places', () => {
  test('that differ are never the same bytes', () => {
    // short texts of few letters would collide if a separator could be mistaken
    const letters = ['', 'a', 'b', '|', '\0', '1', 'ab', 'a|b', '\u0001', 'é', 'e\u0301']
    const pick = () => letters[Math.floor(Math.random() * letters.length)] ?? ''
    const ids = [null, 0, 1, 11, -1]
    const seen = new Map<string, string>()
    for (let round = 0; round < 200_000; round++) {
      const place: Place = {
        table: pick() + pick(),
        column: pick() + pick(),
        organizationId: ids[Math.floor(Math.random() * ids.length)] ?? null,
        rowId: round % 2 ? pick() : Math.floor(Math.random() * 12),
      }
      const key = encodePlace(place).toString('latin1')
      const tuple = JSON.stringify(place)
      if (seen.has(key) && seen.get(key) !== tuple)
        expect.unreachable(`${tuple} = ${seen.get(key)}`)
      seen.set(key, tuple)
    }
    expect(seen.size).toBeGreaterThan(50_000)
  })

  test('that cannot be told apart are refused', () => {
    const place = { table: 't', column: 'c', organizationId: 1, rowId: 1 }
    expect(() => encodePlace({ ...place, table: '\ud800' })).toThrow(SecretStoreError)
    expect(() => encodePlace({ ...place, rowId: 1.5 })).toThrow(SecretStoreError)
    expect(() => encodePlace({ ...place, rowId: 2 ** 60 })).toThrow(SecretStoreError)
  })
})
