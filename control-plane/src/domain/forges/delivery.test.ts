// The rules for every delivery, row by row; and which repository a delivery is about.
import { describe, expect, test } from 'vitest'
import { DELIVERY_ROWS, type DeliveryFacts, decideDelivery } from './delivery.ts'
import { matchRepository, normaliseAddress, type ReportedRepository } from './repository-match.ts'

const fine: DeliveryFacts = {
  earlier: undefined,
  kind: 'push',
  what: '',
  match: { kind: 'match', learn: false, renamedTo: null },
  projectDeleting: false,
}
const CASES: Record<(typeof DELIVERY_ROWS)[number], [Partial<DeliveryFacts>, string]> = {
  duplicate: [
    { earlier: { id: 7, outcome: 'queued', rule: 'redeployed', reason: 'Done.' } },
    'duplicate',
  ],
  ping: [{ kind: 'ping' }, 'applied'],
  unsupported_event: [{ kind: 'other', what: 'star' }, 'ignored'],
  malformed_payload: [{ kind: 'malformed', what: 'ref is missing' }, 'ignored'],
  repository_mismatch: [{ match: { kind: 'mismatch', reason: 'Another one.' } }, 'ignored'],
  project_deleting: [{ projectDeleting: true }, 'ignored'],
}

test.each(DELIVERY_ROWS)('%s', (row) => {
  const [over, outcome] = CASES[row]
  expect(decideDelivery({ ...fine, ...over })).toMatchObject({ outcome, rule: row, intents: [] })
})

test('anything else goes to the tables of its kind', () => {
  expect(decideDelivery(fine)).toBeUndefined()
})

test('a malformed payload says where, a duplicate what became of the first', () => {
  const malformed = decideDelivery({ ...fine, ...CASES.malformed_payload[0] })
  expect(malformed?.reason).toContain('ref is missing')
  expect(decideDelivery({ ...fine, ...CASES.duplicate[0] })?.reason).toContain('Delivery 7')
})

describe('whose repository', () => {
  test.each([
    ['git@git.example.com:Acme/Shop.git', 'git.example.com', 'acme/shop'],
    ['https://git.example.com/acme/shop', 'git.example.com', 'acme/shop'],
    ['https://git.example.com:8443/acme/shop.git/', 'git.example.com', 'acme/shop'],
    ['ssh://git@git.example.com:7999/acme/shop.git', 'git.example.com', 'acme/shop'],
    ['https://git.example.com/scm/ACME/shop.git', 'git.example.com', 'acme/shop'],
    ['https://git.example.com/projects/ACME/repos/shop/browse', 'git.example.com', 'acme/shop'],
    ['https://git.example.com/group/sub/shop', 'git.example.com', 'group/sub/shop'],
  ])('%s', (url, host, path) => {
    expect(normaliseAddress(url)).toEqual({ host, path })
  })

  const reported: ReportedRepository = {
    provider: 'github',
    externalId: '4711',
    fullName: 'acme/shop',
    webUrl: 'https://git.example.com/acme/shop',
  }
  const fresh = { repoUrl: 'git@git.example.com:acme/shop.git', provider: null, externalId: null }
  const known = { ...fresh, provider: 'github', externalId: '4711' }

  test('the first match by name is learned', () => {
    expect(matchRepository(fresh, reported)).toEqual({
      kind: 'match',
      learn: true,
      renamedTo: null,
    })
    const elsewhere = { ...reported, webUrl: 'https://web.example.com/x/acme/shop' }
    expect(matchRepository(fresh, elsewhere).kind).toBe('match')
    expect(matchRepository(fresh, { ...reported, fullName: 'acme/shop2', webUrl: null }).kind).toBe(
      'mismatch',
    )
  })

  test('from then on the id decides', () => {
    expect(matchRepository(known, reported)).toEqual({
      kind: 'match',
      learn: false,
      renamedTo: null,
    })
    const renamed = {
      ...reported,
      fullName: 'acme/store',
      webUrl: 'https://git.example.com/acme/store',
    }
    expect(matchRepository(known, renamed)).toMatchObject({ renamedTo: 'acme/store' })
    expect(matchRepository(known, { ...reported, externalId: '9' }).kind).toBe('mismatch')
  })

  test('another kind of host must have the very same address', () => {
    const moved = { ...reported, provider: 'gitea' as const, externalId: '1' }
    expect(matchRepository(known, moved)).toMatchObject({ kind: 'match', learn: true })
    const nameOnly = { ...moved, webUrl: 'https://mirror.example.com/acme/shop' }
    expect(matchRepository(known, nameOnly).kind).toBe('mismatch')
  })
})
