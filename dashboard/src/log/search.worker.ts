// Searches beside the page: an expression that takes for ever holds up nobody, and is ended from outside.
import { type SearchRequest, searchTexts } from './matching.ts'

addEventListener('message', ({ data }: MessageEvent<SearchRequest>) => {
  postMessage({ began: data.id }) // from here on the time counts
  postMessage(searchTexts(data))
})
postMessage({ began: 0 })
