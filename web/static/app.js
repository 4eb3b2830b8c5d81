// Everything that these pages do beyond HTML. Without it they read the same.
const root = document.documentElement
const all = (selector, within = document) => [...within.querySelectorAll(selector)]
root.classList.add('js')

// One line for screen readers, said again even where it repeats.
const status = document.body.appendChild(Object.assign(document.createElement('div'), { className: 'vh', role: 'status' }))
const say = text => {
  status.textContent = ''
  setTimeout(() => { status.textContent = text }, 30)
}

// The theme is a cookie, so that the server writes it into the next page.
const toggleTheme = () => {
  const dark = root.dataset.theme ? root.dataset.theme === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches
  root.dataset.theme = dark ? 'light' : 'dark'
  document.cookie = `theme=${root.dataset.theme};path=${document.querySelector('.brand').pathname};max-age=31536000;samesite=lax`
}

const copyFrom = async button => {
  const target = button.dataset.copyFrom
  await navigator.clipboard.writeText(target ? document.getElementById(target).textContent : button.dataset.copy)
  button.classList.add('done')
  say('Copied')
  setTimeout(() => button.classList.remove('done'), 1200)
}

document.addEventListener('click', e => {
  if (e.target.closest('[data-theme-toggle]')) toggleTheme()
  const copy = e.target.closest('[data-copy],[data-copy-from]')
  if (copy) copyFrom(copy).catch(() => say('Copying is not allowed here'))
})

// The same hash lights up everywhere on the page.
const light = on => e => {
  const hash = e.target.closest?.('[data-h]')?.dataset.h
  if (hash) all(`[data-h="${CSS.escape(hash)}"]`).forEach((el, i, same) => el.classList.toggle('lit', on && same.length > 1))
}
for (const [type, on] of [['pointerover', true], ['pointerout', false], ['focusin', true], ['focusout', false]]) document.addEventListener(type, light(on))

// Copying the short form of a hash gives the whole.
document.addEventListener('copy', e => {
  const of = node => node?.parentElement?.closest('[data-h]')
  const s = getSelection(), hash = of(s.anchorNode)
  if (!hash || s.isCollapsed || hash !== of(s.focusNode)) return
  e.clipboardData.setData('text/plain', hash.dataset.h)
  e.preventDefault()
})

document.addEventListener('keydown', e => {
  const q = document.getElementById('q'), at = document.activeElement
  if (!q || e.ctrlKey || e.metaKey || e.altKey) return
  if (e.key === '/' && !/^(input|textarea|select)$/i.test(at?.tagName) && !at?.isContentEditable) {
    e.preventDefault()
    q.focus()
    q.select()
  } else if (e.key === 'Escape' && at === q) q.blur()
})

// Relative times grow older where they stand.
const units = [[86400, 'day', 172800], [3600, 'hour', 3600], [60, 'minute', 60], [1, 'second', 0]]
const relative = (ms, now) => {
  const s = Math.floor(Math.abs(now - ms) / 1000)
  const [size, name] = units.find(u => s >= u[2])
  const n = Math.floor(s / size), text = `${n} ${name}${n === 1 ? '' : 's'}`
  return ms > now ? `in ${text}` : `${text} ago`
}
const age = () => all('time[datetime]').forEach(t => {
  const text = relative(Date.parse(t.dateTime), Date.now())
  if (t.textContent !== text) t.textContent = text
})
setInterval(() => { if (!document.hidden) age() }, 5000)

// The feed of the front page: one stream, closed while the page is hidden.
const feed = document.getElementById('feed')
if (feed) live(feed)

function live (feed) {
  const state = document.getElementById('live-state'), pause = document.getElementById('feed-pause'), fresh = document.getElementById('feed-new')
  const url = new URL(feed.dataset.stream, location)
  let source, held = [], paused = false, heard = Date.now(), unsaid = 0, count

  const show = (name, text) => {
    state.dataset.state = name
    state.querySelector('.text').textContent = text
    root.classList.toggle('stale', name === 'stale')
  }
  const clock = ms => new Date(ms).toISOString().slice(11, 19) + ' UTC'

  const row = e => {
    const li = document.getElementById('feed-row').content.firstElementChild.cloneNode(true)
    const get = selector => li.querySelector(selector)
    li.dataset.seq = e.seq
    get('.ico').className = 'ico ' + e.icon
    get('use').setAttribute('href', '#i-' + e.icon)
    const hash = get('.hash')
    hash.dataset.h = e.agent ?? ''
    Object.assign(hash.firstElementChild, { href: e.agentHref ?? '', title: e.agent ?? '', textContent: e.who ?? '' })
    get('.verb').textContent = e.verb
    get('.thing').href = e.href
    get('.thing bdi').textContent = e.what
    get('.tail').textContent = e.tail ?? ''
    get('.sub').textContent = e.sub ?? ''
    const time = document.createElement('time')
    Object.assign(time, { dateTime: new Date(e.at).toISOString(), title: new Date(e.at).toISOString().slice(0, 19).replace('T', ' ') + ' UTC', textContent: relative(e.at, Date.now()) })
    get('.t').replaceChildren(time)
    li.classList.add('new')
    setTimeout(() => li.classList.remove('new'), 2000)
    return li
  }
  const put = list => {
    document.getElementById('feed-empty')?.remove()
    feed.prepend(...list.map(row).reverse())
    while (feed.children.length > 100) feed.lastElementChild.remove()
  }
  const button = () => {
    fresh.hidden = held.length === 0
    fresh.textContent = `${held.length === 100 ? 'over ' : ''}${held.length} new`
  }
  const recount = () => {
    count ??= setTimeout(async () => {
      count = undefined
      try {
        const now = await (await fetch(feed.dataset.status)).json()
        all('[data-count]').forEach(el => { el.textContent = el.dataset.count.split('.').reduce((v, key) => v[key], now).toLocaleString('en-US') })
      } catch {} // the stream's own state tells that the node is away
    }, 1000)
  }
  const open = () => {
    source = new EventSource(url)
    const beat = () => {
      heard = Date.now()
      show(paused ? 'paused' : 'on', paused ? 'Paused' : 'Connected')
    }
    source.onopen = beat
    source.addEventListener('beat', () => {
      beat()
      recount() // a rate falls while nothing happens
    })
    source.addEventListener('reload', () => location.reload()) // the node has started again, what is shown may lack something
    source.addEventListener('missed', e => say(`${JSON.parse(e.data).missed} events are not shown`))
    source.onmessage = m => {
      beat()
      url.searchParams.set('since', m.lastEventId)
      unsaid++
      recount()
      if (paused) {
        held = [...held, JSON.parse(m.data)].slice(-100)
        button()
      } else put([JSON.parse(m.data)])
    }
    source.onerror = () => show('stale', `Reconnecting, last heard ${clock(heard)}`)
  }

  pause.onclick = () => {
    paused = !paused
    pause.setAttribute('aria-pressed', paused)
    pause.textContent = paused ? 'Resume' : 'Pause'
    show(paused ? 'paused' : 'on', paused ? 'Paused' : 'Connected')
    if (!paused) fresh.onclick()
  }
  fresh.onclick = () => {
    put(held)
    held = []
    button()
  }
  document.addEventListener('visibilitychange', () => {
    source?.close()
    if (!document.hidden) open()
  })
  setInterval(() => {
    if (!document.hidden && Date.now() - heard > 32000) show('stale', `Reconnecting, last heard ${clock(heard)}`)
    if (source?.readyState === 2 && !document.hidden) open() // refused: tried again
  }, 5000)
  setInterval(() => {
    if (unsaid) say(`${unsaid} new events`)
    unsaid = 0
  }, 30000)
  if (!document.hidden) open()
}
