import { expect, it } from 'vitest'
import { upstreamsOf } from './resolution.ts'

const target = { kind: 'container', id: 'a', port: 80, others: ['b', 'c'] } as const
const addresses: Record<string, string> = { a: '10.0.0.1', b: '10.0.0.2', c: '10.0.0.3' }
const at = (avoided: string[], down: string[] = []): string[] =>
  upstreamsOf(
    { ...target, others: [...target.others] },
    (id) => (down.includes(id) ? undefined : addresses[id]),
    new Set(avoided),
  ).map(({ address }) => address)

it('leads to every replica that runs and is not avoided', () => {
  expect(at([])).toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3'])
  expect(at(['b'])).toEqual(['10.0.0.1', '10.0.0.3'])
  expect(at([], ['a'])).toEqual(['10.0.0.2', '10.0.0.3'])
})

it('never takes out the last one', () => {
  expect(at(['a', 'b', 'c'])).toEqual(['10.0.0.1', '10.0.0.2', '10.0.0.3'])
  expect(at(['b'], ['a', 'c'])).toEqual(['10.0.0.2'])
  expect(at([], ['a', 'b', 'c'])).toEqual([])
})
