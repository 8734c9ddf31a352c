/* Checks the pool of pages, and a sequence's sliding list of them. */
#include "unit.h"

#include "engine/sched/pages.h"

static void test_take_and_drop(void **state)
{
    struct pages p;
    int32_t a, b;

    (void)state;
    assert_int_equal(pages_init(&p, 2), OSP_OK);
    a = pages_alloc(&p);
    b = pages_alloc(&p);
    assert_int_not_equal(a, b);
    assert_int_equal(p.n_free, 0);
    pages_unref(&p, a);
    assert_int_equal(p.n_free, 1);
    assert_int_equal(pages_alloc(&p), a);
    pages_unref(&p, a);
    pages_unref(&p, b);
    assert_int_equal(p.n_free, 2);
    pages_release(&p);
}

static void test_shared_page_is_free_with_the_last_reference(void **state)
{
    struct pages p;
    int32_t a;

    (void)state;
    assert_int_equal(pages_init(&p, 1), OSP_OK);
    a = pages_alloc(&p);
    pages_ref(&p, a);
    pages_unref(&p, a);
    assert_int_equal(p.n_free, 0);
    pages_unref(&p, a);
    assert_int_equal(p.n_free, 1);
    pages_release(&p);
}

static void test_list_covers_positions(void **state)
{
    struct page_list l;
    struct pages p;

    (void)state;
    assert_int_equal(pages_init(&p, 4), OSP_OK);
    assert_int_equal(page_list_init(&l, 4), OSP_OK);
    page_list_grow(&l, &p, 0);
    assert_int_equal(l.n, 1);
    page_list_grow(&l, &p, PAGE_TOKENS - 1);
    assert_int_equal(l.n, 1);
    page_list_grow(&l, &p, PAGE_TOKENS);
    assert_int_equal(l.n, 2);
    page_list_grow(&l, &p, 4 * PAGE_TOKENS - 1);
    assert_int_equal(l.n, 4);
    page_list_clear(&l, &p);
    assert_int_equal(p.n_free, 4);
    page_list_release(&l);
    pages_release(&p);
}

static void test_list_slides_whole_pages_only(void **state)
{
    struct page_list l;
    struct pages p;
    int32_t second;

    (void)state;
    assert_int_equal(pages_init(&p, 3), OSP_OK);
    assert_int_equal(page_list_init(&l, 3), OSP_OK);
    page_list_grow(&l, &p, 3 * PAGE_TOKENS - 1);
    second = l.numbers[1];
    page_list_slide(&l, &p, -5);
    page_list_slide(&l, &p, PAGE_TOKENS - 1);
    assert_int_equal(l.first, 0);
    assert_int_equal(l.n, 3);
    page_list_slide(&l, &p, PAGE_TOKENS);
    assert_int_equal(l.first, 1);
    assert_int_equal(l.n, 2);
    assert_int_equal(l.numbers[0], second);
    page_list_grow(&l, &p, 4 * PAGE_TOKENS - 1); /* continues where it was */
    assert_int_equal(l.n, 3);
    assert_int_equal(p.n_free, 0);
    page_list_clear(&l, &p);
    page_list_release(&l);
    pages_release(&p);
}

static void test_pages_of_tokens(void **state)
{
    (void)state;
    assert_int_equal(pages_of_tokens(0), 0);
    assert_int_equal(pages_of_tokens(1), 1);
    assert_int_equal(pages_of_tokens(PAGE_TOKENS), 1);
    assert_int_equal(pages_of_tokens(PAGE_TOKENS + 1), 2);
    assert_int_equal(pages_of_tokens(INT32_MAX), INT32_MAX / PAGE_TOKENS + 1);
}

UNIT_MAIN(cmocka_unit_test(test_take_and_drop),
          cmocka_unit_test(test_shared_page_is_free_with_the_last_reference),
          cmocka_unit_test(test_list_covers_positions),
          cmocka_unit_test(test_list_slides_whole_pages_only),
          cmocka_unit_test(test_pages_of_tokens))
