// Which address of an environment users see.
import { describe, expect, test } from 'vitest'
import { environmentUrl, serviceUrl, shownImage, shownUrl } from './environment.ts'

const web = { name: 'web', hosts: ['pr-1.shop.example.com'], port: 8080 }

describe('where people reach a service', () => {
  test('as the edge says', () => {
    const url = 'http://pr-1.shop.localhost:8080'
    expect(serviceUrl({ ...web, url }, 'fra-1.example.com')).toBe(url)
    expect(environmentUrl([{ ...web, url }], 'fra-1.example.com')).toBe(url)
  })

  test('without a word of the edge: its host name, then its port', () => {
    expect(serviceUrl(web, 'fra-1.example.com')).toBe('https://pr-1.shop.example.com')
    expect(serviceUrl({ ...web, hosts: [] }, 'fra-1.example.com')).toBe(
      'http://fra-1.example.com:8080',
    )
    expect(serviceUrl({ ...web, hosts: [], port: 0 }, 'fra-1.example.com')).toBe(null)
  })
})

test.each([
  ['https://pr-1.shop.example.com/', 'https://pr-1.shop.example.com'],
  ['http://pr-1.shop.localhost:8080/api', 'http://pr-1.shop.localhost:8080/api'],
  ['', undefined],
  ['javascript:alert(1)', undefined],
  ['https://user:secret@example.com/', undefined],
  [`https://example.com/${'x'.repeat(3_000)}`, undefined],
  ['not a url', undefined],
])('an address an agent reports: %s', (reported, shown) => {
  expect(shownUrl(reported)).toBe(shown)
})

test.each([
  ['postgres:17', 'postgres:17'],
  ['registry.example.com:5000/a/b@sha256:0f', 'registry.example.com:5000/a/b@sha256:0f'],
  ['berth/e101-web:812', undefined],
  ['', undefined],
  ['a b', undefined],
  ['<img src=x>', undefined],
])('an image is shown as the service file names it: %s', (reported, shown) => {
  expect(shownImage(reported)).toBe(shown)
})
